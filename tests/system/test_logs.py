"""``rankd logs``: what a job wrote, byte by byte, from a real site; and nothing for anybody else."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from system.conftest import RANKD, Machine
from watch import PATIENCE_S, appears

from rankd.bus.connection import Bus
from rankd.bus.log_stream import LogStream
from rankd.client.asker import Asker
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import source_of
from rankd.wire.session import JobLog

SLOW = """
import random, sys, time
chance = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    sys.stdout.buffer.write(chance.randbytes(chance.randrange(60_000)))
    sys.stdout.buffer.flush()
    time.sleep(0.02)
sys.exit(7)
"""
"""Writes random bytes by a seed, for a while."""


def written(seed: int, parts: int) -> bytes:
    chance = random.Random(seed)
    return b"".join(chance.randbytes(chance.randrange(60_000)) for _ in range(parts))


@pytest.fixture(scope="module")
def site(shared_machine) -> Machine:
    shared_machine.start("--name", "here")
    return shared_machine


def logs(site: Machine, *words: str, creds: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """The command's bytes and status."""
    place = {"RANKD_DIR": str(site.directory)}
    given = [] if creds is None else ["--creds", str(creds), "--nats", site.up["nats"]]
    return subprocess.run([*RANKD, "logs", *given, *words], capture_output=True, check=False, env=os.environ | place)


def submit(site: Machine, *command: str, options: tuple[str, ...] = ()) -> int:
    return int(site.rankd("submit", "--parsable", *options, "--", *command).strip())


def test_the_bytes_of_an_ended_job_and_parts_of_them(site, tmp_path):
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 3000); sys.stderr.write('e1\\ne2\\n')"
    job = str(submit(site, sys.executable, "-c", script, options=("--wait",)))
    whole = bytes(range(256)) * 3000
    assert logs(site, job).stdout == whole
    assert logs(site, job, "--bytes", "300").stdout == whole[-300:]
    assert logs(site, job, "--stderr").stdout == b"e1\ne2\n"
    assert logs(site, job, "--stderr", "-n", "1").stdout == b"e2\n"
    both = logs(site, job, "--both")
    assert (both.stdout, both.stderr) == (whole, b"e1\ne2\n")
    assert (followed := logs(site, job, "-f")).stdout == whole
    assert followed.returncode == 0
    other = tmp_path / "named.txt"
    named = str(submit(site, "echo", "to a file", options=("--wait", "--output", str(other))))
    assert logs(site, named).stdout == b"to a file\n"
    other.unlink()
    assert b"removed" in (gone := logs(site, named)).stderr
    assert gone.returncode == 1
    nothing = str(submit(site, "echo", "x", options=("--wait", "--output", "/dev/null")))
    assert logs(site, nothing).stderr == b"rankd: /dev/null can't be read: it is not a regular file\n"


def test_a_followed_job_that_never_started_says_so_once_and_gives_its_status(site):
    job = str(submit(site, "/no/such/program"))
    followed = logs(site, job, "-f")
    assert (followed.returncode, followed.stdout) == (127, b"")
    assert followed.stderr.endswith(
        f"ended as failed without a start, so it wrote nothing; ask `rankd show {job}`\n".encode()
    )
    assert followed.stderr.count(b"without a start") == 1
    array = site.rankd("submit", "--parsable", "--wait", "-a", "3-4", "--", "true").strip()
    refused = logs(site, array)
    assert (refused.returncode, f"name one, such as {array}_3".encode() in refused.stderr) == (1, True)


def test_nobody_else_reads_it_and_an_administrator_does(site):
    job = str(submit(site, "echo", "secret", options=("--wait", "--as", "alice")))
    alice, bob = site.credentials("user", "alice"), site.credentials("user", "bob")
    assert logs(site, job, creds=alice).stdout == b"secret\n"
    refused = logs(site, job, creds=bob)
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"only its owner or an administrator" in refused.stderr
    assert logs(site, job, "--admin").stdout == b"secret\n"
    assert b"has not started" in logs(site, str(submit(site, "true", options=("--hold",)))).stderr


def test_a_followed_job_is_waited_for_and_gives_its_status_whatever_is_killed_meanwhile(site):
    job = str(submit(site, sys.executable, "-c", SLOW, "11", "150", options=("--hold",)))
    with subprocess.Popen(
        [*RANKD, "logs", "-f", job], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"RANKD_DIR": str(site.directory)},
    ) as following:  # fmt: skip
        assert b"has not started" in following.stderr.readline()
        site.rankd("release", job)
        got = following.stdout.read(100_000)
        site.kill("intake")
        got += following.stdout.read(100_000)
        site.kill("nats")
        got += following.stdout.read(100_000)
        site.kill("agent")
        got += following.stdout.read()
        assert following.wait(PATIENCE_S) == 7
    assert got == written(11, 150)


async def test_a_slow_reader_holds_up_nobody(site):
    """One reads nothing; another one gets all of the same file meanwhile."""
    size = 8_000_000
    script = f"import sys; sys.stdout.buffer.write(b'x' * {size})"
    job = submit(site, sys.executable, "-c", script, options=("--wait",))
    async with Bus(site.up["nats"], "test", credentials=source_of(Path(site.up["creds"]))) as bus:
        slow, fast = (LogStream(bus, Asker(bus.user or ""), JobLog(id=job)) for _ in range(2))
        await slow.open()
        parts = slow.parts()
        first = len(await anext(parts))
        async with asyncio.timeout(PATIENCE_S):
            assert sum([len(part) async for part in fast.parts()]) == size
            assert first + sum([len(part) async for part in parts]) == size


async def test_no_session_is_opened_for_anybody_else(site, tmp_path):
    script = f"echo begun > {tmp_path}/begun; sleep 60"
    job = submit(site, "sh", "-c", script, options=("--as", "alice"))
    alice, bob = site.credentials("user", "alice"), site.credentials("user", "bob")
    await appears(tmp_path / "begun")
    async with (
        Bus(site.up["nats"], "a", credentials=source_of(alice)) as of_alice,
        Bus(site.up["nats"], "b", credentials=source_of(bob)) as of_bob,
    ):
        mine = LogStream(of_alice, Asker("alice"), JobLog(id=job, follow=True))
        assert (await mine.open()).node == "here"
        with pytest.raises(Refused) as refused:
            await LogStream(of_bob, Asker("bob"), JobLog(id=job, follow=True)).open()
        assert refused.value.code == "not_owner"
        with pytest.raises(Unavailable):  # nobody hears it in bob's account
            await LogStream(of_bob, Asker("alice"), JobLog(id=job, follow=True), patience_s=0.0).open()
    site.rankd("cancel", "--as", "alice", str(job))
