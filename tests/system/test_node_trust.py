"""A node that vouches for the users of its machine: two users of this one play those of another machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.conftest import RANKD
from system.test_gateway import ONE, TWO, of_user, python_for_others, shared  # noqa: F401 - a fixture
from system.test_gateway import as_user as gateway_user
from system.test_identity import asked, client_of
from system.test_socket_requests import by_whom
from watch import PATIENCE_S

from rankd.bus.login import ask_at, log_in_again
from rankd.core.errors import Refused

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

NODE = "n2"


@contextmanager
def an_agent(machine, node: str = NODE):
    """An agent with credentials of its own; gives the directory of its login socket."""
    place = machine.directory.parent / node
    place.mkdir()
    place.chmod(0o755)
    creds = machine.credentials("node", node)
    log = machine.directory.parent / f"{node}.log"
    command = [
        *RANKD, "agent", "--nats", machine.up["nats"], "--creds", str(creds), "--name", node,
        "--state", str(place / "state"), "--login-socket", str(place / "login.sock"), "--drain-on-stop",
    ]  # fmt: skip
    with log.open("w") as output:
        agent = subprocess.Popen(command, stdout=output, stderr=output, cwd=place)
    try:
        until_it_says(agent, log, f"registered {node}")
        yield place
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(PATIENCE_S)


def until_it_says(agent, log: Path, text: str) -> None:
    while text not in log.read_text():
        assert agent.poll() is None, log.read_text()
        time.sleep(0.02)


def as_user(uid: int, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of this user, who names the directory of the node's socket."""
    if (python := python_for_others()) is None:
        pytest.skip("other users can't read this installation of rankd, or have no Python of this version")
    command = [python, "-m", "rankd", words[0], "--dir", str(place), *words[1:]]
    return subprocess.run(command, text=True, check=False, **of_user(uid))


def test_a_trusted_node_vouches_for_its_users_until_it_is_untrusted(shared):  # noqa: F811
    with an_agent(shared) as place:
        assert stat.S_IMODE((place / "login.sock").stat().st_mode) == 0o666
        said = as_user(ONE, place, "submit", "--retry-for", "1", "--", "true")
        assert said.returncode == 3
        assert f"rankd node trust {NODE}" in said.stderr
        assert f"node '{NODE}' may vouch" in shared.rankd("node", "trust", NODE)
        assert "Submitted batch job 1" in as_user(ONE, place, "submit", "--hold", "--", "true").stdout
        assert "Submitted batch job 2" in as_user(TWO, place, "submit", "--hold", "--", "true").stdout
        assert by_whom(shared, 1)[0] == ("submit", "daemon", NODE)
        assert by_whom(shared, 2)[0] == ("submit", "bin", NODE)
        assert "belongs to 'bin'" in as_user(ONE, place, "cancel", "2").stderr
        assert "daemon" in as_user(TWO, place, "list").stdout
        assert "needs credentials" in as_user(ONE, place, "watch").stderr
        assert "may not vouch" in shared.rankd("node", "untrust", NODE)
        assert as_user(ONE, place, "submit", "--retry-for", "1", "--", "true").returncode == 3
        assert len(shared.rows("SELECT id FROM jobs")) == 2


def test_a_user_whose_access_was_revoked_does_not_get_in_over_a_node(shared):  # noqa: F811
    with an_agent(shared) as place:
        shared.rankd("node", "trust", NODE)
        shared.rankd("auth", "revoke", "--user", "daemon")
        said = as_user(ONE, place, "submit", "--retry-for", "1", "--", "true")
        assert "has revoked the access of 'daemon'" in said.stderr
        assert as_user(ONE, place, "queue").returncode != 0
        assert "Submitted batch job 1" in as_user(TWO, place, "submit", "--hold", "--", "true").stdout
        shared.rankd("auth", "user", "add", "daemon")
        assert "Submitted batch job 2" in as_user(ONE, place, "submit", "--hold", "--", "true").stdout


def test_a_node_whose_access_is_revoked_is_not_trusted_when_it_gets_in_again(shared):  # noqa: F811
    shared.credentials("node", NODE)
    shared.rankd("node", "trust", NODE)
    assert "may not vouch for its users any more" in shared.rankd("auth", "revoke", "--node", NODE)
    shared.credentials("node", NODE)
    assert json.loads((shared.directory / "auth" / "trusted.json").read_text()) == {NODE: False}
    assert "vouch" not in shared.rankd("auth", "revoke", "--node", NODE)


def test_root_and_the_administrator_are_nobody_at_a_nodes_socket(shared):  # noqa: F811
    with an_agent(shared) as place:
        shared.rankd("node", "trust", NODE)
        with pytest.raises(Refused, match="root of node 'n2' is nobody elsewhere"):
            ask_at(place / "login.sock", "job.list", b"{}")
        with pytest.raises(Refused, match="is nobody elsewhere"):
            log_in_again(place / "login.sock")


async def test_a_hostile_node_names_no_administrator_and_no_other_gateway(shared):  # noqa: F811
    file = shared.credentials("node", NODE)
    shared.rankd("node", "trust", NODE)
    async with client_of(shared, file) as node:
        assert "jobs" in await asked(node, f"rankd.v1.gateway.{NODE}.alice.job.list")
        assert await asked(node, f"rankd.v1.gateway.{NODE}.root.job.list") == "403"
        for subject in ("gateway.head.alice.job.list", "gateway.n3.alice.job.list", "user.alice.job.list"):
            assert await asked(node, f"rankd.v1.{subject}") == "NoRespondersError", subject
        assert await asked(node, f"rankd.v1.gateway.{NODE}.alice.config.reload") == "403"
        job = {"command": ["true"], "user": "bob"}
        assert await asked(node, f"rankd.v1.gateway.{NODE}.alice.job.submit", job) == "403"
        await asyncio.to_thread(shared.rankd, "node", "untrust", NODE)
        async with asyncio.timeout(5):  # as is promised
            while isinstance(await asked(node, f"rankd.v1.gateway.{NODE}.alice.job.list"), dict):
                pass


def test_an_untrusting_that_the_broker_did_not_hear_of_holds_from_its_next_start(shared):  # noqa: F811
    shared.rankd("node", "trust", NODE)
    shared.stop()
    shared.rankd("node", "untrust", NODE)
    shared.start("--name", "here", rights=())
    with an_agent(shared) as place:
        assert as_user(ONE, place, "submit", "--retry-for", "1", "--", "true").returncode == 3
    assert json.loads((shared.directory / "auth" / "trusted.json").read_text()) == {NODE: False}


def test_no_node_takes_the_name_of_the_heads_gateway(shared):  # noqa: F811
    assert "'head' is the name of rankd's own gateway" in shared.rankd_fails("node", "trust", "head", status=2)


def test_only_the_owner_of_the_site_trusts_nodes(shared):  # noqa: F811
    said = gateway_user(ONE, shared, "node trust", NODE)
    assert "only the user who started this rankd" in said.stderr
    assert not (shared.directory / "auth" / "trusted.json").exists()
