"""Nodes of other hosts: a token for one use, then credentials that the agent keeps, renews, and loses by revocation."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.conftest import Machine
from system.home import Home
from watch import PATIENCE_S

from rankd.identity.credentials import read_credentials

SECOND = "127.0.0.2"


@contextmanager
def agent(home: Home, *words: str, token: str = "") -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """An agent of another host, and its log."""
    log = home.directory / "agent.log"
    with log.open("a") as errors:
        process = home.start("agent", "--state", str(home.directory / "state"), "--run-as", "agent", *words,
                             token=token, stderr=errors)  # fmt: skip
    try:
        yield process, log
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


async def until(condition) -> None:
    """Until the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.1)


def is_up(machine: Machine, node: str) -> bool:
    return bool(machine.rows("SELECT name FROM node WHERE name = ? AND state = 'up'", node))


@pytest.fixture(scope="module")
def head(shared_machine) -> Machine:
    """One for all tests; each has nodes of its own, so that no other test's invitation or revocation counts."""
    shared_machine.start("--no-local-agent", "--listen", SECOND)
    return shared_machine


@pytest.fixture
def host(tmp_path) -> Home:
    return Home(tmp_path / "host")


async def test_an_agent_enrols_once_and_needs_no_token_later(head, host):
    file = host.directory / "n2.token"
    head.rankd("node", "enrol", "n2", "--out", str(file))
    with agent(host, "--token-file", str(file)):
        await until(lambda: is_up(head, "n2"))
    state = host.directory / "state"
    assert {stat.S_IMODE((state / name).stat().st_mode) for name in ("node.creds", "node.json")} == {0o600}
    assert not (state / "node.key").exists()
    expires_at = read_credentials(state / "node.creds").claims().expires_at
    assert 25 * 86_400 < expires_at - time.time() < 31 * 86_400
    file.unlink()
    with agent(host, "--token-file", str(file)):  # as in a unit, which goes on to name the file
        await until(lambda: is_up(head, "n2"))
    with agent(host):
        await until(lambda: is_up(head, "n2"))
        assert "Submitted batch job" in head.rankd("submit", "--wait", "--", "true")
    listed = json.loads(head.rankd("auth", "user", "list", "--json"))
    assert [one["name"] for one in listed if one["role"] == "node"] == ["n2"]


async def test_a_token_is_for_its_node_and_for_one_use(head, host, tmp_path):
    token = head.rankd("node", "enrol", "n4")
    said = host.run("agent", "--state", "state", "--name", "n5", "--token-file", "-", token=token, status=1)
    assert "those of node 'n4', and this agent is 'n5'; give --name n4" in said
    with agent(host, "--token-file", "-", token=token):
        await until(lambda: is_up(head, "n4"))
    other = Home(tmp_path / "other")
    said = other.run("agent", "--state", "state", "--token-file", "-", token=token, status=1)
    assert "this invitation was used at" in said
    assert "is for the node 'n4'" in other.run("login", token=token, status=2)
    user = head.rankd("auth", "invite", "alice")
    assert "for user 'alice', not for a node" in other.run("agent", "--state", "state", "--token", user, status=2)


async def test_an_agent_that_is_killed_during_its_first_start_gets_in_with_the_same_token(head, host):
    """The key is on the disk before the exchange, and the record is written last."""
    token = head.rankd("node", "enrol", "n6")
    with agent(host, "--token-file", "-", token=token):
        await until(lambda: is_up(head, "n6"))
    state = host.directory / "state"
    key = read_credentials(state / "node.creds").seed
    digest = json.loads((state / "node.json").read_text())["invitation"]
    (state / "node.key").write_text(f"{digest} {key}\n")
    (state / "node.json").unlink()
    (state / "node.creds").unlink()
    with agent(host, "--token-file", "-", token=token):
        await until((state / "node.json").exists)


async def test_a_revoked_agent_stops_and_says_why_and_a_new_token_lets_it_in_again(head, host):
    token = head.rankd("node", "enrol", "n7")
    with agent(host, "--token-file", "-", token=token) as (process, log):
        await until(lambda: is_up(head, "n7"))
        job = host.directory / "job-runs"
        number = head.rankd("submit", "--parsable", "--", "sh", "-c", f"touch {job}; sleep 601")
        await until(job.exists)
        assert "is revoked" in head.rankd("auth", "revoke", "--node", "n7")
        await asyncio.to_thread(process.wait, PATIENCE_S)
        assert process.returncode == 1
        last = log.read_text().splitlines()[-1]
        assert last.startswith(f"rankd: the NATS server at nats://{SECOND}:")
        assert "does not accept the credentials of 'n7'" in last
        assert "they have expired or were revoked; get new ones" in last
    with agent(host) as (process, log):  # it does not try for ever
        await asyncio.to_thread(process.wait, PATIENCE_S)
        assert process.returncode == 1
    with agent(host, "--token-file", "-", "--drain-on-stop", token=head.rankd("node", "enrol", "n7")):
        await until(lambda: is_up(head, "n7"))
        assert head.rows("SELECT state FROM job WHERE id = ?", int(number)) == [{"state": "running"}]  # it ran on
        head.rankd("cancel", "--admin", number.strip())  # it must not go to another test's node
        await until(lambda: head.rows("SELECT state FROM job WHERE id = ?", int(number)) == [{"state": "cancelled"}])


@pytest.mark.parametrize("whose", [("node", "n9"), ("user", "alice")])
def test_an_agent_with_credentials_of_another_says_so_and_ends(head, host, whose):
    file = head.credentials(*whose)
    said = host.run("agent", "--state", "state", "--nats", head.up["nats"], "--creds", str(file), "--name", "n8",
                    status=1)  # fmt: skip
    assert f"are those of {whose[0]} '{whose[1]}', and this agent represents node 'n8'" in said


async def test_an_agent_renews_its_credentials_in_time(head, host):
    with agent(host, "--token-file", "-", token=head.rankd("node", "enrol", "n10")):
        await until(lambda: is_up(head, "n10"))
    kept = host.directory / "state" / "node.creds"
    head.rankd("auth", "creds", "--node", "n10", "--lasts", "20s", "--out", str(kept))
    ends = read_credentials(kept).claims().expires_at
    with agent(host) as (process, log):
        await until(lambda: read_credentials(kept).claims().expires_at > ends + 86_400)
        await asyncio.sleep(max(0.0, ends + 1 - time.time()))  # what it had at its start has ended
        await until(lambda: is_up(head, "n10"))
        assert process.poll() is None, log.read_text()
        assert "Submitted batch job" in head.rankd("submit", "--wait", "--", "true")


def test_an_agent_whose_credentials_ended_says_what_to_do(head, host):
    state = host.directory / "state"
    state.mkdir()
    head.rankd("auth", "creds", "--node", "n11", "--lasts", "1s", "--out", str(state / "node.creds"))
    (state / "node.json").write_text(json.dumps({"nats": head.up["nats"], "name": "n11", "invitation": "d"}))
    time.sleep(1.5)
    said = host.run("agent", "--state", str(state), status=1)
    assert "on the head: rankd node enrol n11, then give --token-file" in said


def missing(why: str) -> None:
    """Skip; in continuous integration, fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no second host can be made here: {why}")


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Another host, as far as the network goes: the head's address for it, and the words that run a command there."""
    name, head, there = f"rankd-{os.getpid()}", f"rk{os.getpid()}a", f"rk{os.getpid()}b"
    part = os.getpid() % 250 + 1
    steps = [
        f"ip netns add {name}",
        f"ip link add {head} type veth peer name {there} netns {name}",
        f"ip address add 10.203.{part}.1/30 dev {head}",
        f"ip link set {head} up",
        f"ip -n {name} address add 10.203.{part}.2/30 dev {there}",
        f"ip -n {name} link set {there} up",
        f"ip -n {name} link set lo up",
    ]
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                missing(f"{step}: {done.stderr.strip()}")
        yield f"10.203.{part}.1", ["ip", "netns", "exec", name]
    except FileNotFoundError:
        missing("there is no ip")
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", head], capture_output=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a second host")
async def test_a_node_and_a_user_of_another_host_join_by_tokens_only(machine, elsewhere, tmp_path):
    address, there = elsewhere
    machine.start("--no-local-agent", "--listen", address)
    host, alice = Home(tmp_path / "host", *there), Home(tmp_path / "alice", *there)
    with agent(host, "--token-file", "-", token=machine.rankd("node", "enrol", "gpu2")):
        await until(lambda: is_up(machine, "gpu2"))
        assert "you are user 'alice'" in alice.run("login", token=machine.rankd("auth", "invite", "alice"))
        watching = alice.start("watch", "--json", "--since", "now-1hour")
        assert "Submitted batch job 1" in alice.run("submit", "--wait", "--", "ip", "-brief", "address")
        [job] = machine.rows("SELECT user, state, nodelist, stdout FROM job")
        assert (job["user"], job["state"], job["nodelist"]) == ("alice", "completed", "gpu2")
        assert address.removesuffix(".1") in Path(job["stdout"]).read_text()  # in the other host's network
        while "completed" not in (line := await asyncio.to_thread(watching.stdout.readline)):
            assert line
        watching.terminate()
        watching.communicate(timeout=PATIENCE_S)
        machine.rankd("auth", "user", "revoke", "alice")
        assert "does not accept the credentials" in alice.run("queue", status=1)
