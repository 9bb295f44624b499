"""What ``rankd up`` makes of its machine: an address for others, what the node offers, file modes, logs."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from system.client import connected
from system.conftest import RANKD, Machine
from watch import PATIENCE_S, gone_within

SECOND = "127.0.0.2"
OTHERS = 0o077


async def test_a_second_agent_joins_over_the_address_that_it_listens_on(machine):
    machine.start("--name", "first", "--listen", SECOND, "--labels", "site=north", "--resources", "vcore=3,memory=64Mi")
    url = machine.up["nats"]
    assert url.startswith(f"nats://{SECOND}:")
    async with connected(url, machine.services) as client:
        joined = await client.connection.subscribe("rankd.v1.event.node.second")
        place = ["--nats", url, "--creds", str(machine.credentials("node", "second"))]
        command = ["agent", *place, "--name", "second", "--state", str(machine.directory.parent / "second")]
        agent = subprocess.Popen([*RANKD, *command, "--run-as", "agent", "--drain-on-stop"], stderr=subprocess.DEVNULL)
        try:
            await joined.next_msg(timeout=PATIENCE_S)
            [job] = await client.submit("alice", {"command": ["true"], "nodes": 2, "resources": {"vcore": 1}})
            assert await client.until_ended(1) == {job: "completed"}
        finally:
            agent.terminate()
            await asyncio.to_thread(agent.wait)
    assert machine.rows("SELECT nodelist FROM job") == [{"nodelist": "first,second"}]
    [node] = machine.rows("SELECT capacity, labels FROM nodes WHERE name = 'first'")
    assert node == {"capacity": '{"memory": 67108864, "vcore": 3000}', "labels": '{"site": "north"}'}


@pytest.mark.parametrize(
    ("options", "scheme", "meaning"),
    [
        (
            [],
            "tls",
            "The connection is encrypted. The token holds what the other machine needs to check this one.",
        ),
        (["--no-tls"], "nats", "The connection is not encrypted: anyone between the machines can read it."),
    ],
)
def test_what_listening_means_is_said(machine, options, scheme, meaning):
    process = subprocess.Popen(
        [*RANKD, "up", "--dir", str(machine.directory), "--no-local-agent", "--listen", "0.0.0.0", *options],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        said = []
        for line in process.stdout:
            said.append(line)
            if "The connection is" in line:
                break
        process.terminate()
    text = "".join(said)
    assert f"rankd node enrol --dir {machine.directory} NODE --out NODE.token" in text
    assert "rankd agent --token-file NODE.token --state DIR" in text
    assert f"The broker: {scheme}://{os.uname().nodename}:" in text
    assert meaning in text


def test_an_address_that_is_not_of_this_machine_is_refused_at_once(machine):
    said = machine.rankd_fails("up", "--dir", str(machine.directory), "--listen", "192.0.2.1", status=1)
    assert "can't listen on 192.0.2.1: Cannot assign requested address" in said
    said = machine.rankd_fails("up", "--nats", "nats://x:1", "--listen", SECOND, status=2)
    assert "--listen is for the embedded broker" in said
    said = machine.rankd_fails("up", "--resources", "vcore=many", status=2)
    assert "many" in said


async def test_everything_that_it_makes_is_for_its_owner_only(machine):
    os.umask(0o022)
    machine.start("--name", "here", "--simulate", "1")
    async with connected(machine.up["nats"], machine.services) as client:
        [job] = await client.submit("alice", {"command": ["sh", "-c", "umask"], "resources": {"vcore": 1}})
        await client.until_ended(1)
    [row] = machine.rows("SELECT stdout FROM job WHERE id = ?", job)
    if row["stdout"]:  # on the real node
        assert Path(row["stdout"]).read_text().strip() == "0022"
    assert too_wide(machine.directory) == []
    assert machine.stop() == 0
    assert too_wide(machine.directory) == []


async def test_a_directory_of_an_older_version_is_narrowed(machine):
    machine.start("--name", "here")
    assert machine.stop() == 0
    output = machine.directory / "agent/output/job-1.out"
    output.write_text("of a job")
    output.chmod(0o644)
    for path in [machine.directory, *machine.directory.rglob("*")]:
        if path != output and not path.is_socket():
            path.chmod(path.stat().st_mode | 0o055)
    machine.start("--name", "here")
    assert too_wide(machine.directory) == []
    assert stat.S_IMODE(output.stat().st_mode) == 0o644


def too_wide(directory: Path) -> list[str]:
    """What others could reach, but for the files of jobs."""
    output = directory / "agent/output"
    found = [path for path in [directory, *directory.rglob("*")] if output not in path.parents]
    return [f"{path} {path.lstat().st_mode:o}" for path in found if path.lstat().st_mode & OTHERS]


def test_a_log_that_grows_is_rotated_while_its_writer_goes_on(machine):
    """The broker's: nobody in Python writes it."""
    machine.start("--no-local-agent")
    log = machine.directory / "log/nats.log"
    with log.open("ab") as more:
        more.write(b"x" * 5 * 2**20)
    part = machine.directory / "log/nats.log.1"
    machine.rankd("queue")
    while not part.exists() or log.stat().st_size > 2**20:
        assert not gone_within(machine._process.pid, 0.01)
    os.kill(machine.up["pids"]["nats"], signal.SIGHUP)  # it says that it reloads
    while "Reload" not in log.read_text():
        assert not gone_within(machine._process.pid, 0.01)
    assert log.stat().st_size < 2**20
    assert part.stat().st_size > 5 * 2**20
    assert not part.stat().st_mode & OTHERS


async def test_a_directory_may_have_any_name(tmp_path):
    machine = Machine(tmp_path / 'it\'s "a" $dir #1 {x}\\ \n 100%j')
    try:
        machine.start("--name", "a.b *")
        async with connected(machine.up["nats"], machine.services) as client:
            [job] = await client.submit("alice", {"command": ["echo", "hello"], "resources": {"vcore": 1}})
            assert await client.until_ended(1) == {job: "completed"}
        [row] = machine.rows("SELECT stdout, nodelist FROM job")
        assert Path(row["stdout"]).read_text() == "hello\n"
        assert row["nodelist"] == "a.b *"
        assert "agent-a.b *: ready" in machine.rankd("health", "agent-a.b *")
        assert machine.stop() == 0
    finally:
        machine.end()


def test_a_service_that_does_not_start_is_named_with_its_status_and_its_last_words(machine):
    lock = machine.directory / "agent" / "lock"
    lock.mkdir(parents=True)  # the agent wants a file there
    said = machine.rankd_fails("up", "--dir", str(machine.directory), status=3).splitlines()[-1]
    log = machine.directory / "log" / "agent.log"
    last = f"rankd: {lock.parent} can't be used: Is a directory ({lock})"
    assert log.read_text().splitlines()[-1] == last
    assert said == f"rankd: agent does not start (exit status 1); the last line of its log {log}: {last}"


def test_health_names_the_service_that_does_not_answer(machine):
    machine.start("--no-local-agent")
    assert machine.rankd("health", "intake").startswith("intake: ready (pid ")
    for service in ("agent-none", "agent-a b", "*", "x.>"):
        said = machine.rankd_fails("health", service, "--timeout", "1", status=3)
        assert said.startswith(f"rankd: {service} does not answer within 1 s; is it running at {machine.up['nats']}?")
