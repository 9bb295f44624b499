"""The agent is started and stopped, cancelled at any await, and left without room on its disk."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from integration.test_agent import an_agent, an_intake, keeper_of, options_of, start_of
from watch import LOOK_EVERY_S, PATIENCE_S, alive, appears, gone

from rankd.services.agent.service import run
from rankd.services.keeper.spare import BLANK
from rankd.services.runtime.life import end_tasks

TIMES = 50


async def turns(number: int) -> None:
    """Let the event loop go round so often."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_started_and_stopped_fifty_times_it_leaves_nothing(broker, tmp_path):
    """It is told to stop a little later each time, in the middle of whatever it does then."""
    async with an_intake(broker) as intake:
        for number in range(TIMES):
            await intake.order(starts=[start_of(number + 1, "sleep", "1000")])
            async with an_agent(options_of(broker, tmp_path)):
                await turns(number * 40)
        async with an_agent(options_of(broker, tmp_path)):
            await intake.order(cancels=list(range(1, TIMES + 1)))
            for number in range(TIMES):
                await intake.ended(number + 1)
        causes = {end.cause for number in range(TIMES) for end in intake.of(number + 1, "ended")}
    assert causes <= {"agent_stopped", "cancel"}
    assert keepers(tmp_path) == []


def keepers(tmp_path: Path) -> list[int]:
    """Keepers of this test's state directory."""
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and f"{tmp_path}/state\0" in (path / "cmdline").read_text():
                found.append(int(path.name))
    return found


async def test_cancelled_at_any_await_its_job_runs_on(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with an_agent_that_dies(broker, tmp_path) as task:
            await intake.start(1, "sh", "-c", f"echo $$ >> {tmp_path}/pid; exec sleep 1000")
            await intake.started(1)
            pid = int(await appears(tmp_path / "pid"))
        for number in range(TIMES):
            async with an_agent_that_dies(broker, tmp_path) as task:
                await turns(number * 40)
            assert task.cancelled()
            assert alive(pid)
        keeper = keeper_of(pid)
        async with an_agent(options_of(broker, tmp_path)):
            await intake.order(cancels=[1])
            assert (await intake.ended(1)).cause == "cancel"
        await gone(keeper)
    assert (tmp_path / "pid").read_text() == f"{pid}\n"


@asynccontextmanager
async def an_agent_that_dies(broker, tmp_path):
    """Cancelled at the end of the block, wherever it is then."""
    task = asyncio.get_running_loop().create_task(run(options_of(broker, tmp_path), asyncio.Event()))
    try:
        yield task
    finally:
        await end_tasks(task)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB for the state."""
    directory = tmp_path / "state"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can make a small file system")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


async def test_without_room_on_its_disk_it_starts_nothing_new_and_recovers_by_itself(broker, tmp_path, small_disk):
    filler = small_disk / "filler"
    output = {"stdout": f"{tmp_path}/out", "stderr": f"{tmp_path}/out"}
    async with an_intake(broker) as intake, an_agent(options_of(broker, tmp_path)):
        os.mkfifo(tmp_path / "fifo")
        await intake.start(1, "sh", "-c", f"read line < {tmp_path}/fifo; exit 3", **output)
        await intake.started(1)
        fill(filler)
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        assert (await intake.ended(1)).exit_status == 3  # though its end can't be written down
        async with asyncio.timeout(PATIENCE_S):
            while not is_put_away(small_disk, 1):
                await asyncio.sleep(LOOK_EVERY_S)
        fill(filler)
        await intake.start(2, "true", **output)
        await intake.until(lambda: intake.times_given[2] > 1)
        assert not intake.of(2, "started")
        filler.unlink()
        assert (await intake.ended(2)).exit_status == 0


def is_put_away(state: Path, allocation: int) -> bool:
    """Whether the directory of an allocation is a spare one: emptied, so that nothing more gives room again."""
    if (state / "allocations" / str(allocation)).exists():
        return False
    left = [path for spare in (state / "spare").iterdir() for path in spare.iterdir()]
    return all(path.name == BLANK and path.stat().st_size == 0 for path in left)


def fill(path: Path) -> None:
    """To the last page."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 512):
            pass
