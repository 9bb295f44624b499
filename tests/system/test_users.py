"""A broker that knows its users: the configuration that ships, a real nats-server, and everybody's own command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.conftest import RANKD, Machine
from watch import PATIENCE_S

from rankd.bus.client import PatientClient

CONFIGURATION = Path(__file__).parents[2] / "config" / "nats" / "users.conf"
SECRET = "sesame"
USERS = {"rankd": "SERVICES", "node1": "NODE", "root": "ADMIN", "alice": "ALICE", "bob": "BOB"}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of a nats-server with the configuration that ships, but for the port and the place where it stores."""
    text = CONFIGURATION.read_text().replace("port: 4222", "host: 127.0.0.1\nport: -1")
    path = tmp_path / "users.conf"
    path.write_text(text.replace('"/data"', f'"{tmp_path / "jetstream"}"'))
    passwords = {f"RANKD_{name}_PASSWORD": f"{SECRET}-{user}" for user, name in USERS.items()}
    server = subprocess.Popen(
        [Path(sys.executable).with_name("nats-server"), "-c", path],
        env=os.environ | passwords,
        stderr=subprocess.PIPE,
        text=True,
    )
    found: list[int] = []
    ready = threading.Event()
    reader = threading.Thread(target=_read_log, args=(server, found, ready))
    reader.start()
    assert ready.wait(PATIENCE_S)
    yield found[0]
    server.kill()
    server.wait()
    reader.join()


def _read_log(server: subprocess.Popen[str], found: list[int], ready: threading.Event) -> None:
    with server.stderr:
        for line in server.stderr:
            if listening := re.search(r"Listening for client connections on \S+:(\d+)", line):
                found.append(int(listening.group(1)))
            if "Server is ready" in line:
                ready.set()


def url(user: str, port: int) -> str:
    return f"nats://{user}:{SECRET}-{user}@127.0.0.1:{port}"


def rankd(port: int, user: str, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """As this user would run it, without access to the database."""
    environment = os.environ | {"RANKD_NATS": url(user, port), "RANKD_DIR": "/nonexistent"}
    done = subprocess.run([*RANKD, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture
def running(machine: Machine, port: int, tmp_path: Path) -> Iterator[Machine]:
    """The services as ``rankd``, an agent as ``node1``."""
    machine.start("--no-local-agent", "--nats", url("rankd", port))
    agent = subprocess.Popen(
        [*RANKD, "agent", "--name", "node1", "--run-as", "agent", "--state", tmp_path / "agent"],
        env=os.environ | {"RANKD_NATS": url("node1", port)},
    )
    yield machine
    agent.terminate()
    agent.wait()


def test_everybody_asks_under_his_own_name_only(running, port, tmp_path):
    output = tmp_path / "out"
    command = ("sh", "-c", 'echo "nats:$RANKD_NATS"')
    said = rankd(port, "alice", "submit", "--wait", "-o", str(output), "--", *command).stdout
    assert said.startswith("Submitted batch job 1")
    assert output.read_text() == "nats:\n"  # the agent's own password is not the job's
    assert [row["user"] for row in running.rows("SELECT user FROM jobs")] == ["alice"]

    refused = rankd(port, "alice", "submit", "--as", "bob", "--", "true", status=1).stderr
    assert "does not let 'alice' ask as somebody else (rankd.v1.user.bob.job.submit)" in refused
    refused = rankd(port, "alice", "cancel", "--admin", "1", status=1).stderr
    assert refused == "rankd: for administrators only: the broker does not know 'alice' as an administrator\n"
    refused = rankd(port, "alice", "reload", status=1).stderr
    assert "config.reload is for administrators only; 'alice' asked as an ordinary user" in refused

    rankd(port, "bob", "submit", "--hold", "--", "true")
    assert "belongs to 'bob'" in rankd(port, "alice", "cancel", "2", status=1).stderr
    rankd(port, "root", "cancel", "--admin", "2")
    assert running.rows("SELECT state FROM jobs WHERE id = 2") == [{"state": "cancelled"}]
    assert "node1" in rankd(port, "alice", "nodes").stdout


@pytest.mark.usefixtures("running")
def test_a_user_watches_his_own_jobs(port):
    """From a clock time on that is yet to come today, so that yesterday's is meant."""
    rankd(port, "alice", "submit", "--wait", "--", "true")
    soon = time.strftime("%H:%M", time.localtime(time.time() + 3600))
    with subprocess.Popen(
        [*RANKD, "watch", "--json", "--since", soon],
        env=os.environ | {"RANKD_NATS": url("alice", port)},
        stdout=subprocess.PIPE,
        text=True,
    ) as watch:
        try:
            events = [json.loads(watch.stdout.readline())["event"] for _ in range(4)]
        finally:
            watch.terminate()
    assert events == ["submit", "allocate", "start", "complete"]


def test_no_password_is_where_others_see_it(running, port, tmp_path):
    """Not in a job's environment or arguments, nor in any file that rankd writes: up.json, logs, records, streams."""
    seen = tmp_path / "seen"
    look = "env; cat /proc/self/cmdline /proc/$PPID/cmdline"
    rankd(port, "alice", "submit", "--wait", "-o", str(seen), "--", "sh", "-c", look)
    assert "RANKD_JOB_ID" in seen.read_text()
    assert SECRET not in seen.read_text()
    for file in [*running.directory.rglob("*"), *(tmp_path / "agent").rglob("*"), *(tmp_path / "jetstream").rglob("*")]:
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    for pid in running.up["pids"].values():
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_wrong_password_is_called_so(port):
    wrong = f"nats://alice:guess@127.0.0.1:{port}"
    done = subprocess.run(
        [*RANKD, "submit", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"RANKD_NATS": wrong, "RANKD_DIR": "/nonexistent"},
    )
    assert done.returncode == 1
    assert "does not accept 'alice' with this password" in done.stderr
    assert "guess" not in done.stderr


@pytest.mark.usefixtures("running")
async def test_a_program_of_a_users_own_is_held_to_the_same(port):
    """Plain NATS: other subjects, other inboxes, answers to somebody else."""
    errors: asyncio.Queue[str] = asyncio.Queue()

    async def on_error(error: Exception) -> None:
        await errors.put(str(error))

    client, bob = PatientClient(), PatientClient()
    await client.connect(url("alice", port), inbox_prefix="_INBOX.alice", error_cb=on_error)
    async with asyncio.timeout(PATIENCE_S):
        for subject in ("rankd.v1.node.node1.report", "rankd.v1.user.bob.job.cancel", "rankd.v1.internal.committed"):
            await client.publish(subject, b"{}")
            assert f'permissions violation for publish to "{subject}"' in (await errors.get()).lower()
        for subject in ("_INBOX.>", "_INBOX.bob.>", "rankd.v1.event.job.bob", "rankd.v1.user.>"):
            await client.subscribe(subject)
            assert f'permissions violation for subscription to "{subject.lower()}"' in (await errors.get()).lower()

        await bob.connect(url("bob", port), inbox_prefix="_INBOX.bob")
        inbox = await bob.subscribe("_INBOX.bob.x")
        await bob.flush()
        await client.publish("rankd.v1.user.alice.job.list", b"{}", reply="_INBOX.bob.x")  # dropped
        reply = await client.request("rankd.v1.user.alice.job.list", b"{}", timeout=PATIENCE_S)
        assert json.loads(reply.data)
        assert inbox.pending_msgs == 0
        for connection in (client, bob):
            await connection.close()
