"""Health names every loop that hangs, what a service waits for, and a service that hangs for good ends itself."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import builder
import pytest
from integration.stage import ASK_EVERY_S, PATIENCE_S, ready, running, write_config

from rankd.bus import connection
from rankd.bus.connection import Bus
from rankd.bus.health import answer_health, ask_health
from rankd.bus.liveness import HUNG, LEAST_END_S, Loops, LoopWatch
from rankd.core.errors import Unavailable
from rankd.identity.credentials import source_of
from rankd.services.agent import service as agent
from rankd.services.intake import service as intake
from rankd.services.prioritizer import service as prioritizer
from rankd.services.scheduler import service as scheduler
from rankd.services.up import service as up
from rankd.services.up.interface import Told

LONG_S = 100_000.0


class Freezable(Coroutine):
    """A coroutine that stands still, where it waits, while it is frozen."""

    def __init__(self, coroutine, frozen: set) -> None:
        self._coroutine = coroutine
        self._frozen = frozen
        self._thaw = None
        self._error = None
        self.task = None

    def send(self, value):
        if self.task in self._frozen:
            return self._stand_still()
        if self._error is not None:
            error, self._error = self._error, None
            return self._coroutine.throw(*error)
        return self._coroutine.send(value)

    def throw(self, *error):
        """A timeout inside, too, is kept until the coroutine goes on."""
        if self.task in self._frozen:
            self._error = error
            return self._stand_still()
        return self._coroutine.throw(*error)

    def _stand_still(self):
        self._thaw = asyncio.get_running_loop().create_future()
        self._thaw._asyncio_future_blocking = True
        return self._thaw

    def close(self):
        self._coroutine.close()

    def __await__(self):
        return self

    def thaw(self):
        if self._thaw is not None and not self._thaw.done():
            self._thaw.set_result(None)


class Freezer:
    """Can make any task hang that was created since, without its knowledge."""

    def __init__(self) -> None:
        self._frozen = set()
        asyncio.get_running_loop().set_task_factory(self._make)

    def _make(self, loop, coroutine, **options):
        wrapped = Freezable(coroutine, self._frozen)
        wrapped.task = asyncio.Task(wrapped, loop=loop, **options)
        return wrapped.task

    def freeze(self, *tasks) -> None:
        self._frozen |= set(tasks)

    def thaw(self) -> None:
        tasks = list(self._frozen)
        self._frozen.clear()
        for task in tasks:
            task.get_coro().thaw()


@pytest.fixture
def registries(monkeypatch):
    """The loops of every connection that is made, in order."""
    made = []

    class Recorded(Loops):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(connection, "Loops", Recorded)
    return made


@pytest.fixture
def places(broker, tmp_path):
    builder.new_database(tmp_path)
    return {"nats": broker.url, "db": str(tmp_path / "rankd.db"), "config": write_config(tmp_path / "config")}


def skip_time(loops: Loops) -> None:
    """Whatever does not come round from now on is late."""
    before = loops.clock
    loops.clock = lambda: before() + LONG_S


async def until(bus: Bus, service: str, condition) -> str:
    """What health says once that fulfils the condition."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):  # a service that was killed is not back yet
                if condition(health := await ask_health(bus, service, timeout_s=1)):
                    return health.detail
            await asyncio.sleep(ASK_EVERY_S)


SERVICES = {
    "intake": (intake.run, intake.IntakeOptions),
    "prioritizer": (prioritizer.run, prioritizer.PrioritizerOptions),
    "scheduler": (scheduler.run, scheduler.SchedulerOptions),
}
LOOPS = {
    "intake": {
        "commits",
        "relay of events",
        "checkpoints",
        "watch over nodes",
        "watch over deliveries",
        "inputs of adapters",
        "reloads",
    },
    "prioritizer": {"full passes", "delta generations", "changes of the configuration"},
    "scheduler": {"cycles", "hints to nodes", "inputs of adapters", "changes of the configuration"},
    "agent-n1": {"reports", "registration", "keeper", "taking of allocations"},
}


@asynccontextmanager
async def served(service: str, places, tmp_path):
    """The service, and the intake."""
    async with AsyncExitStack() as stack:
        task = await stack.enter_async_context(running(intake.run, intake.IntakeOptions(**places)))
        if service == "agent-n1":
            options = agent.AgentOptions(nats=places["nats"], state_dir=tmp_path / "state", name="n1")
            task = await stack.enter_async_context(running(agent.run, options))
        elif service != "intake":
            run, options = SERVICES[service]
            task = await stack.enter_async_context(running(run, options(**places)))
        yield task


async def diag(places, *options: str) -> tuple[int, str]:
    """The exit status of ``rankd diag``, and what it prints."""
    words = ["-m", "rankd", "diag", "--nats", places["nats"], *options]
    child = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    printed, _ = await child.communicate()
    return child.returncode, printed.decode()


@pytest.mark.parametrize("service", LOOPS)
async def test_health_names_every_loop_of_a_service_that_hangs(service, registries, places, tmp_path):
    async with Bus(places["nats"], "test") as bus:
        freezer = Freezer()
        async with served(service, places, tmp_path):
            await ready(bus, service)
            [own] = [loops for loops in registries if LOOPS[service] <= {loop.name for loop in loops.all}]
            await until(bus, service, lambda health: health.ready)
            hanging = [loop for loop in own.all if not loop.name.startswith("subscription")]
            names = {loop.name for loop in hanging}
            assert names >= LOOPS[service] | {"connection"}
            freezer.freeze(*(loop.task for loop in hanging))
            skip_time(own)
            try:
                said = await until(bus, service, lambda health: all(f"'{name}'" in health.detail for name in names))
                printed = (await diag(places))[1] if service in SERVICES else ""
            finally:
                freezer.thaw()
            assert "has hung since" in said
            if service in SERVICES:
                [line] = [line for line in printed.splitlines() if "NOT READY" in line]
                assert {name for name in names if f"'{name}' has hung since" not in line} == set(), (line, printed)
            await until(bus, service, lambda health: health.ready)


async def test_diag_ends_as_health_does(registries, places):
    async with Bus(places["nats"], "test") as bus, AsyncExitStack() as stack:
        for run, options in SERVICES.values():
            one = AsyncExitStack()
            await stack.enter_async_context(one)
            await one.enter_async_context(running(run, options(**places)))
        for service in SERVICES:
            await ready(bus, service)
        assert (await diag(places))[0] == 0
        [scheduling] = [loops for loops in registries if "cycles" in {loop.name for loop in loops.all}]
        scheduling.reasons.append(lambda: "the moon is new")
        status, printed = await diag(places)
        assert status == 1
        assert printed.count("NOT READY") == printed.count("waiting: the moon is new") == 1
        status, printed = await diag(places, "--json")
        said = json.loads(printed)
        assert (status, said["health"]["ready"], said["prioritizer"]["health"]["ready"]) == (1, True, True)
        assert not said["scheduler"]["health"]["ready"]
        await one.aclose()
        status, printed = await diag(places)
        assert status == 3
        assert "Scheduler: no answer" in printed


async def test_health_names_a_subscription_that_has_ended(registries, places):
    async with (
        Bus(places["nats"], "test") as bus,
        Bus(places["nats"], "service") as served,
        asyncio.TaskGroup() as group,
    ):
        supervising = group.create_task(served.supervise())

        async def fine() -> str:
            return "fine"

        async def on_message(_message) -> None:
            pass

        await answer_health(served, "service", fine)
        await served.listen("wake.up", on_message)
        await until(bus, "service", lambda health: health.ready)
        [wake] = [one.subscription for one in served._lasting if one.subscription.subject == "wake.up"]
        wake._wait_for_msgs_task.cancel()
        skip_time(registries[-1])
        said = await until(bus, "service", lambda health: health.detail.count("has hung since") == 1)
        assert "wake.up" in said
        supervising.cancel()


async def test_a_connection_that_reads_nothing_any_more_is_a_loop_that_hangs(broker):
    async with Bus(broker.url, "service") as served, asyncio.TaskGroup() as group:
        supervising = group.create_task(served.supervise())
        served.client._reading_task.cancel()
        served.client._ping_interval_task.cancel()
        while not served.loops.all:
            await asyncio.sleep(0)
        skip_time(served.loops)
        assert "'connection'" in served.loops.verdict()
        supervising.cancel()


@pytest.mark.parametrize("service", ["intake", "prioritizer"])
async def test_health_says_that_the_database_is_held_by_somebody_until_it_is_free(service, places, tmp_path):
    async with Bus(places["nats"], "test") as bus, running(SERVICES[service][0], SERVICES[service][1](**places)):
        await ready(bus, service)
        with (tmp_path / "rankd.db.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            said = await until(bus, service, lambda health: not health.ready)
            assert "waiting: another process has held the database" in said
            assert str(tmp_path / "rankd.db") in said
        await until(bus, service, lambda health: health.ready)


def stepped():
    """Loops whose clock the test advances, their watch, and with what the process would have ended."""
    now, ends = [0.0], []
    loops = Loops(lambda: now[0])
    watch = LoopWatch(loops, ends.append)

    def pass_time(seconds: float) -> None:
        for _ in range(round(seconds)):
            now[0] += 1
            watch.run_once()

    return loops, pass_time, ends


def test_a_loop_that_hangs_for_long_ends_the_service():
    loops, pass_time, ends = stepped()
    loops.add("slow", 10)
    pass_time(10 + LEAST_END_S - 1)
    assert not ends
    pass_time(3)
    assert ends[0] == HUNG


def test_what_waits_for_something_known_or_comes_round_is_not_ended():
    loops, pass_time, ends = stepped()
    loop, other = loops.add("slow", 10), loops.add("regular", 10)
    for _ in range(100):
        pass_time(9)
        loop.beat()
        other.beat()
    loops.reasons.append(lambda: "the disk is full")
    pass_time(10_000)
    assert loops.verdict() == "waiting: the disk is full (held up: slow, regular)"
    loops.reasons.clear()
    loop.beat()
    other.beat()
    pass_time(5)
    assert loops.verdict() is None
    assert not ends


HANGING = """
import asyncio, time, logging
from rankd.services.runtime.watchdog import EventLoopWatchdog

async def main():
    with EventLoopWatchdog(asyncio.get_running_loop(), tick_s=0.05, end_s=0.5):
        await asyncio.sleep(1)
        print("ticked", flush=True)
        time.sleep(600)

logging.basicConfig()
asyncio.run(main())
"""


async def test_a_synchronous_call_that_never_ends_ends_the_service():
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HANGING, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, log = await child.communicate()
    assert (printed, child.returncode) == (b"ticked\n", HUNG)
    assert b"the event loop has done nothing for" in log
    assert b"in main" in log


async def test_up_replaces_a_service_that_does_not_answer_any_more(tmp_path, monkeypatch):
    monkeypatch.setattr(up, "UNHEARD", 3)
    options = up.UpOptions(
        directory=tmp_path / "up", config=write_config(tmp_path / "config"), local_agent=False, agent_name="n1"
    )
    started = asyncio.get_running_loop().create_future()
    told = Told(stop=asyncio.Event(), hurry=asyncio.Event(), hangup=asyncio.Event())

    class Tell:
        def ready(self, state):
            started.set_result(state)

        def waiting(self, service, verdict):
            pass

        def stopping(self, running, grace_s):
            pass

    async with asyncio.TaskGroup() as group:
        group.create_task(up.run(options, told, Tell()))
        stated = await started
        pid = stated.pids["scheduler"]
        os.kill(pid, signal.SIGSTOP)
        async with Bus(
            stated.nats, "test", credentials=source_of(Path(stated.creds).with_name("services.creds"))
        ) as bus:
            await until(bus, "scheduler", lambda health: health.ready and health.pid != pid)
        told.stop.set()


def child_of_ours(*words: str) -> int | None:
    """The process of ours that has these words in its command line."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes().decode().split("\0")
            if parent == os.getpid() and set(words) <= set(command):
                return int(path.name)
    return None


async def test_up_waits_for_a_slow_service_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(up, "SAY_AFTER_S", 0.0)
    monkeypatch.setattr(up, "SAY_EVERY_S", 0.02)
    options = up.UpOptions(
        directory=tmp_path / "up", config=write_config(tmp_path / "config"), local_agent=False, agent_name="n1"
    )
    told = Told(stop=asyncio.Event(), hurry=asyncio.Event(), hangup=asyncio.Event())
    started = asyncio.get_running_loop().create_future()

    class Tell:
        stopped = None
        said = 0

        def ready(self, state):
            started.set_result(state)

        def waiting(self, service, verdict):
            if self.stopped is None and (pid := child_of_ours("intake", str(tmp_path / "up" / "rankd.db"))):
                self.stopped = pid
                os.kill(pid, signal.SIGSTOP)
            elif self.stopped is not None and (service, verdict) == ("intake", "it does not answer"):
                self.said += 1
                if self.said == 3:
                    assert not started.done()
                    os.kill(self.stopped, signal.SIGCONT)

        def stopping(self, running, grace_s):
            pass

    tell = Tell()
    async with asyncio.TaskGroup() as group:
        group.create_task(up.run(options, told, tell))
        assert (await started).pids["intake"] == tell.stopped
        assert tell.said >= 3
        told.stop.set()
