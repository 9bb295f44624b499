"""Whatever users and nodes call things, every command prints it in its place: no control character gets out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess

import pytest
from system.client import connected
from system.conftest import RANKD
from watch import PATIENCE_S, comes

from rankd.core.printable import printable

CLEAR, UP = "\x1b[2J", "\x9b9A"
NAME = f"evil\n99 root.x forged\r\t|{CLEAR}{UP}\x7f\u0085\u2028\u202e\u2066\u200b\u115f\U000e0041日本e\u0301"
LOOKS = [
    ["queue"],
    ["queue", "-l"],
    ["queue", "--start"],
    ["queue", "-h", "-o", "%i %j %k %8j %.9u"],
    ["queue", "--json"],
    ["list"],
    ["prio", "-l"],
    ["prio", "--json"],
    ["why", "1", "--gap"],
    ["why", "1", "--json"],
    ["show", "1"],
    ["show", "1", "--json"],
    ["history", "1"],
    ["history", "1", "--json"],
    ["acct"],
    ["acct", "-P", "-o", "JobID,JobName,User,Comment"],
    ["acct", "--json"],
    ["share", "-a"],
    ["share", "-a", "-P"],
    ["queues"],
    ["nodes", "-R"],
    ["nodes", "-N"],
    ["nodes", "--json"],
    ["deadletter", "list", "--admin"],
    ["deadletter", "show", "1", "--admin"],
    ["deadletter", "list", "--admin", "--json"],
    ["db", "sql", 'SELECT name, "user", comment FROM jobs'],
    ["db", "sql", "--json", 'SELECT name, "user", comment FROM jobs'],
    ["whatif", "--weights", "age=5"],
    ["whatif", "--weights", "age=5", "--json"],
    ["dump"],
    ["diag"],
    ["config", "history"],
    ["class", "list"],
]


def spoken(machine, *words, status=None):
    """Standard output and error of a command, as bytes that must be UTF-8."""
    done = subprocess.run(
        [*RANKD, *words], capture_output=True, check=False, env=os.environ | {"RANKD_DIR": str(machine.directory)}
    )
    assert status is None or done.returncode == status, done
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def assert_harmless(text):
    assert [line for line in text.split("\n") if printable(line) != line] == []


async def fill(machine):
    """A hostile user's jobs, one for each way to be named, and a dead letter."""
    async with connected(machine.up["nats"], machine.services) as client:
        runs = {"command": ["sleep", "600"], "name": NAME, "comment": NAME, "resources": {"vcore": 8}}
        waits = runs | {"command": ["sleep", "600", NAME]}
        reply = await client.ask("rankd.v1.user.mallory.job.submit", {"jobs": [runs, waits, waits]})
        assert [accepted["id"] for accepted in reply["accepted"]] == [1, 2, 3], reply
    await refused_later(machine)


async def refused_later(machine):
    """An enqueued submission that becomes a dead letter."""
    async with connected(machine.up["nats"], machine.services) as client:
        stream = client.connection.jetstream()
        await stream.publish("rankd.v1.enqueue.mallory", json.dumps({"command": [NAME], "queue": NAME}).encode())


@pytest.mark.timeout(900)
def test_no_command_prints_a_control_character_of_a_users(machine):
    machine.start("--simulate", "1", "--no-local-agent")
    asyncio.run(fill(machine))
    machine.rankd("node", "drain", "--admin", "sim-1", "--reason", NAME)
    comes(lambda: machine.rows("SELECT 1 FROM dead_letter") and machine.rows("SELECT 1 FROM queue_head"))
    for words in LOOKS:
        out, error = spoken(machine, *words, status=0)
        assert_harmless(out)
        assert_harmless(error)
        if "--json" in words or words[0] == "dump":
            assert json.loads(out) is not None
    table = spoken(machine, "queue", "-h", "-t", "all")[0].splitlines()
    assert [line.split()[0] for line in table] == ["1", "2", "3"]
    assert printable(NAME) in table[0]
    records = spoken(machine, "acct", "-P", "-H", "-o", "JobID,JobName,User,Comment")[0].splitlines()
    assert [len(record.split("|")) for record in records] == [4, 4, 4]
    assert [row["name"] for row in json.loads(spoken(machine, "queue", "--json")[0])] == [NAME] * 3


@pytest.mark.timeout(600)
def test_neither_errors_nor_events_nor_logs_carry_one(machine):
    machine.start("--simulate", "1", "--no-local-agent")
    asyncio.run(fill(machine))
    for words in (["submit", "-q", NAME, "--", "true"], ["queue", "-t", NAME], ["hold", NAME], [NAME], ["why", NAME]):
        out, error = spoken(machine, *words)
        assert_harmless(out)
        assert_harmless(error)
        assert error
    words = ["watch", "--all", "--admin", "--since", "now-1hour", "--dir", str(machine.directory)]
    watch = subprocess.Popen([*RANKD, *words], stdout=subprocess.PIPE)
    lines = [watch.stdout.readline().decode() for _ in range(3)]
    asyncio.run(refused_later(machine))
    while "dead letter" not in lines[-1]:  # another event of the first job may come before it
        lines.append(watch.stdout.readline().decode())
    watch.send_signal(signal.SIGINT)
    rest, _ = watch.communicate(timeout=PATIENCE_S)
    assert_harmless("".join(lines) + rest.decode())
    assert "dead letter 2" in lines[-1]
    machine.stop()
    for log in (machine.directory / "log").iterdir():
        assert_harmless(log.read_bytes().decode())


@pytest.mark.parametrize("name", [b"\xff\xfe", b"caf\xe9"])
def test_a_name_that_is_not_utf8_is_refused_in_words(machine, name):
    machine.start("--simulate", "1", "--no-local-agent")
    done = subprocess.run(
        [*RANKD, "submit", "--dir", str(machine.directory), "-J", name, "--", "true"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
