"""The agent's watcher: a real process, with a stand-in of NVIDIA's library, and with a made tree of AMD's driver."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest
from integration.nvml import Card, needs_compiler
from integration.nvml import Machine as StandIn
from watch import PATIENCE_S, gone

from rankd.bus.liveness import Loops
from rankd.services.agent import device_watch
from rankd.services.agent.device_watch import DeviceWatch, Machine
from rankd.services.watcher.message import Look


class Looks:
    def __init__(self) -> None:
        self.all: list[Look | None] = []
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, look: Look | None) -> None:
        self.all.append(look)
        self._tasks.add(asyncio.get_running_loop().create_task(self._tell()))

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(condition)


@asynccontextmanager
async def a_watch(machine: Machine):
    looks, loops = Looks(), Loops()
    watch = DeviceWatch(machine, looks)
    async with asyncio.TaskGroup() as group:
        has_cards = await watch.begin()
        running = group.create_task(watch.run(loops.add("devices"))) if has_cards else None
        yield watch, looks
        if running:
            running.cancel()
        await watch.close()


@pytest.fixture
def stand_in(tmp_path) -> StandIn:
    return StandIn(tmp_path / "nvml")


def machine_of(stand_in: StandIn) -> Machine:
    return Machine(library=str(stand_in.library), root=stand_in.root)


async def test_without_a_driver_there_is_no_watcher_and_no_error(tmp_path):
    async with a_watch(Machine(library="no-such-library.so.1", root=tmp_path)) as (watch, looks):
        assert watch._process is None
        assert looks.all == []
        assert watch.waits_for() is None


@needs_compiler
async def test_the_first_look_is_there_before_the_agent_registers(stand_in):
    stand_in.has(Card("GPU-a"))
    async with a_watch(machine_of(stand_in)) as (_, looks):
        assert [each.device.id for each in looks.all[0].devices] == ["GPU-a"]


@needs_compiler
async def test_an_error_of_a_card_is_told_at_once(stand_in):
    stand_in.has(Card("GPU-a"))
    async with a_watch(machine_of(stand_in)) as (_, looks):
        stand_in.tell("GPU-a", 8, 79)
        await looks.until(lambda: (looks.all[-1].devices[0].fault or "").startswith("XID 79 at "))


@needs_compiler
async def test_a_library_that_hangs_holds_up_nothing_and_is_noticed(stand_in, monkeypatch):
    monkeypatch.setattr(device_watch, "SILENT_S", 0.5)
    monkeypatch.setattr(device_watch, "IDLE_S", 0.1)
    monkeypatch.setattr(device_watch, "AGAIN_S", 0.1)
    stand_in.has(Card("GPU-a"))
    async with a_watch(machine_of(stand_in)) as (watch, looks):
        os.mkfifo(stand_in.directory / "hang")
        hanging = watch._process
        hanging.stdin.write(b"\n")  # look now
        await looks.until(lambda: None in looks.all)
        assert "a card or its driver hangs" in watch.waits_for()
        assert await hanging.wait() == -signal.SIGKILL
        (stand_in.directory / "hang").unlink()
        await looks.until(lambda: looks.all[-1] is not None)
        assert watch.waits_for() is None
        assert watch._process.pid != hanging.pid


@needs_compiler
async def test_a_library_that_hangs_at_once_does_not_hold_up_the_start(stand_in, monkeypatch):
    monkeypatch.setattr(device_watch, "FIRST_S", 0.5)
    stand_in.has(Card("GPU-a"))
    os.mkfifo(stand_in.directory / "hang")
    async with a_watch(machine_of(stand_in)) as (watch, looks):
        assert looks.all == [None]
        with (stand_in.directory / "hang").open("w") as pipe:
            pipe.write("go")
            (stand_in.directory / "hang").unlink()
        await looks.until(lambda: looks.all[-1] is not None)
        assert watch.waits_for() is None


@needs_compiler
async def test_a_watcher_that_was_killed_is_started_again(stand_in, monkeypatch):
    monkeypatch.setattr(device_watch, "AGAIN_S", 0.1)
    stand_in.has(Card("GPU-a"))
    async with a_watch(machine_of(stand_in)) as (watch, looks):
        os.kill(watch._process.pid, signal.SIGKILL)
        await looks.until(lambda: len(looks.all) >= 3)
        assert looks.all[1] is None
        assert looks.all[2].devices == looks.all[0].devices


@needs_compiler
async def test_the_watcher_ends_with_its_agent(stand_in):
    stand_in.has(Card("GPU-a"))
    async with a_watch(machine_of(stand_in)) as (watch, _):
        pid = watch._process.pid
    await gone(pid)


async def test_cards_without_nvidias_library_are_seen(tmp_path):
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    (node / "properties").write_text("simd_count 416\ndrm_render_minor 128\nunique_id 7\ndevice_id 29857\n")
    async with a_watch(Machine(library="no-such-library.so.1", root=tmp_path)) as (watch, looks):
        assert [each.device.model for each in looks.all[0].devices] == ["mi300x"]
        assert watch.waits_for() is None
