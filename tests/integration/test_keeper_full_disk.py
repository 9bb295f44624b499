"""A full disk under the keeper and its agent: nobody ends, nobody stays for ever, and no other job is harmed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.test_agent import NODE, an_agent, an_intake, keeper_of, options_of
from watch import PATIENCE_S, alive, appears, gone

from rankd.bus.health import ask_health
from rankd.services.agent import real_node as agent_real
from rankd.services.keeper.proc import all_pids

MIB = 2**20
LONG = "/".join(["x" * 200] * 17)
"""A path so long that the report of an end, which has it twice, needs a further page of the disk."""


@contextmanager
def mounted(directory: Path, *, inodes: int = 10_000):
    """A file system of a few MiB."""
    directory.mkdir()
    size = f"size=4m,nr_inodes={inodes}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr!r}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def fill(path: Path) -> None:
    """Take all the room that is left."""
    with path.open("ab", buffering=0) as file:
        for size in (MIB, 4096, 1):
            with pytest.raises(OSError, match="No space left"):
                write_on(file, size)


def write_on(file, size: int) -> None:
    while True:
        file.write(b"x" * size)


def use_up_files(directory: Path) -> None:
    """Make as many files as there can be."""
    directory.mkdir()
    with pytest.raises(OSError, match="No space left"):
        make_on(directory)


def make_on(directory: Path) -> None:
    number = 0
    while True:
        (directory / str(number)).touch()
        number += 1


async def waiting_job(intake, tmp_path: Path, allocation: int, **request) -> int:
    """A job that ends when the test writes into its pipe; its process."""
    pid, fifo = tmp_path / f"pid{allocation}", tmp_path / f"fifo{allocation}"
    os.mkfifo(fifo)
    script = f"echo $$ > {pid}; read line < {fifo}; exit 5"
    output = {"stdout": f"{tmp_path}/out{allocation}", "stderr": f"{tmp_path}/out{allocation}"}
    await intake.start(allocation, "sh", "-c", script, **output | request)
    await intake.started(allocation)
    return int(await appears(pid))


async def test_a_keeper_whose_end_of_a_job_finds_no_room_tells_it_keeps_the_others_and_ends_in_time(broker, tmp_path):
    long = f"{tmp_path}/{LONG}"
    with mounted(tmp_path / "state") as disk:
        async with an_intake(broker) as intake:
            async with an_agent(options_of(broker, tmp_path)):
                other = await waiting_job(intake, tmp_path, 1)
                await waiting_job(intake, tmp_path, 2, stdout=long, stderr=long)
                keeper = keeper_of(other)
                fill(disk / "filler")
                (tmp_path / "fifo2").write_text("go\n")
                assert (await intake.ended(2)).exit_status == 5
                while (disk / "allocations/2").exists():  # until its end is recorded
                    await next_heartbeat(intake)
                assert alive(other)
                (disk / "filler").unlink()
                (tmp_path / "fifo1").write_text("go\n")
                assert (await intake.ended(1)).exit_status == 5
            await gone(keeper)


async def test_an_agent_without_room_for_another_keeper_stays_and_says_so(broker, tmp_path):
    with mounted(tmp_path / "state", inodes=200) as disk:
        async with an_intake(broker) as intake, an_agent(options_of(broker, tmp_path)):
            await intake.until(lambda: intake.heartbeats)
            (disk / "keeper.socket").rename(disk / "old.socket")  # its place on the disk is not free
            use_up_files(disk / "files")
            os.kill(keeper_in(disk), signal.SIGKILL)
            await said(intake, "No space left on device")
            await intake.start(2, "true", stdout=f"{tmp_path}/out", stderr=f"{tmp_path}/out")
            await intake.until(lambda: intake.times_given[2] > 1)
            assert not intake.of(2, "started")
            for file in (disk / "files").iterdir():
                file.unlink()
            assert (await intake.ended(2)).exit_status == 0
            assert len(intake.of(2, "started")) == 1


async def test_what_was_claimed_while_there_was_no_keeper_starts_once_there_is_one(broker, tmp_path, monkeypatch):
    """The claims are on the disk, but nobody can start them."""
    monkeypatch.setattr(agent_real, "UP_S", 0.1)
    count, socket = tmp_path / "count", tmp_path / "state/keeper.socket"
    async with an_intake(broker) as intake, an_agent(options_of(broker, tmp_path)):
        keeper = keeper_of(await waiting_job(intake, tmp_path, 1))
        socket.unlink()
        socket.mkdir()
        os.kill(keeper, signal.SIGKILL)
        assert (await intake.ended(1)).cause == "lost"
        await said(intake, "can't start a process in")
        await intake.start(2, "sh", "-c", f"echo ran >> {count}")
        await intake.until(lambda: intake.times_given[2] > 1)
        socket.rmdir()
        assert (await intake.ended(2)).exit_status == 0
    assert count.read_text() == "ran\n"


def keeper_in(state: Path) -> int:
    """The process that keeps the jobs of a state directory."""
    words = [b"rankd.services.keeper.service", os.fsencode(state)]
    [keeper] = [pid for pid in all_pids() if command_of(pid)[-4:-2] == words]
    return keeper


def command_of(pid: int) -> list[bytes]:
    """The words of a process's command line; none where it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


async def said(intake, text: str) -> None:
    """Until the agent's health has it; each answer comes with the next heartbeat."""
    async with asyncio.timeout(PATIENCE_S):
        while text not in (await ask_health(intake.bus, f"agent-{NODE}", timeout_s=PATIENCE_S)).detail:
            await next_heartbeat(intake)


async def next_heartbeat(intake) -> None:
    beats = len(intake.heartbeats)
    await intake.until(lambda: len(intake.heartbeats) > beats)
