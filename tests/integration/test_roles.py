"""The services' life: one of each, started and stopped, taken over, and stopped while it starts."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import asynccontextmanager, suppress

import builder
import nats.errors
import pytest
from integration.stage import NOW, PATIENCE_S, a_cluster, connected, process, ready, rows, running, write_config

from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.core.errors import RoleLost, Unavailable
from rankd.services.intake import service as intake
from rankd.services.prioritizer import service as prioritizer
from rankd.services.scheduler import service as scheduler
from rankd.store.engine.lock import FileLock
from rankd.store.engine.url import open_database

"""Less than a service waits for its broker."""

SERVICES = {
    "intake": (intake.run, intake.IntakeOptions),
    "prioritizer": (prioritizer.run, prioritizer.PrioritizerOptions),
    "scheduler": (scheduler.run, scheduler.SchedulerOptions),
}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def service_of(name: str, tmp_path, url: str):
    """What runs it, and its options."""
    service, kind = SERVICES[name]
    config = write_config(tmp_path / "config")
    return service, kind(nats=url, db=str(tmp_path / "rankd.db"), config=config)


async def take_over(tmp_path, role: str) -> None:
    """As if the other had not seen the lock: on another machine, say."""
    async with open_database(tmp_path / "rankd.db") as database:
        await database.write(lambda c: c.exec_driver_sql("UPDATE roles SET epoch = epoch + 1 WHERE name = ?", (role,)))


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


@asynccontextmanager
async def all_running(broker, tmp_path):
    async with Bus(broker.url, "probe") as bus, asyncio.TaskGroup() as group:
        stop = asyncio.Event()
        for name in SERVICES:
            service, options = service_of(name, tmp_path, broker.url)
            group.create_task(service(options, stop))
        for name in SERVICES:
            await ready(bus, name)
        yield
        stop.set()


# --- one of each --------------------------------------------------------------------------------------------


async def test_a_second_one_on_the_same_database_says_which_and_does_not_start(broker, tmp_path):
    async with all_running(broker, tmp_path):
        seconds = [service_of(name, tmp_path, broker.url) for name in SERVICES]
        outcomes = await asyncio.gather(
            *[service(options, asyncio.Event()) for service, options in seconds], return_exceptions=True
        )
        for name, error in zip(SERVICES, outcomes, strict=True):
            assert isinstance(error, Unavailable), error
            assert error.code == "already_running"
            assert f"another {name} is running on {tmp_path}/rankd.db.{name}.lock" in error.message
        assert rows(tmp_path / "rankd.db", "SELECT name, epoch FROM roles ORDER BY name") == [
            (name, 1) for name in sorted(SERVICES)
        ]


async def test_the_next_one_starts_as_soon_as_the_last_one_has_stopped(broker, tmp_path):
    service, options = service_of("scheduler", tmp_path, broker.url)
    async with asyncio.timeout(PATIENCE_S), Bus(broker.url, "probe") as bus, running(service, options):
        await ready(bus, "scheduler")
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            first = group.create_task(service(options, stop))
            stop.set()
            await first  # it waited for the lock and was told to stop
    async with Bus(broker.url, "probe") as bus, running(service, options):
        await ready(bus, "scheduler")


@pytest.mark.parametrize("name", SERVICES)
async def test_one_that_was_taken_over_stops_at_its_next_write(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    async with asyncio.timeout(PATIENCE_S), Bus(broker.url, "probe") as bus, connected(broker.url) as client:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            outcome = group.create_task(outcome_of(service(options, stop)))
            await ready(bus, name)
            await take_over(tmp_path, name)
            if name == "intake":
                with suppress(nats.errors.NoRespondersError):  # it had something else to write before
                    reply = await client.do("job.submit", {"command": ["true"]})
                    assert (reply.status, reply.body["code"]) in ((503, "role_lost"), (503, "stopping"))
            if name == "scheduler":
                await rank_a_job(tmp_path, broker.url)
            errors = leaves(await outcome)  # of several parts, if they wrote at the same time
        assert {type(error) for error in errors} == {RoleLost}
        assert f"another instance is the {name} now" in errors[0].message
        assert rows(tmp_path / "rankd.db", "SELECT * FROM wait_reasons") == []


async def outcome_of(service) -> BaseException | None:
    try:
        return await service
    except Exception as error:  # noqa: BLE001 - the outcome is what the test looks at
        return error


async def rank_a_job(tmp_path, url: str) -> None:
    """Why it waits is to be written, once the scheduler has looked at it."""
    async with a_cluster(tmp_path, url, roles=("prioritizer",)) as cluster:
        await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW)


async def test_a_paused_process_that_was_taken_over_ends_when_it_goes_on(broker, tmp_path):
    _, options = service_of("prioritizer", tmp_path, broker.url)
    lock = FileLock(tmp_path / "rankd.db.lock")
    flags = {"nats": options.nats, "db": options.db, "config": options.config}
    async with (
        asyncio.timeout(PATIENCE_S),
        Bus(broker.url, "probe") as bus,
        process("prioritizer", **flags) as paused,
    ):
        await ready(bus, "prioritizer")
        with lock.held():  # not while it writes: nobody else could, then
            paused.send_signal(signal.SIGSTOP)
        lock.close()
        await take_over(tmp_path, "prioritizer")
        [(before,)] = rows(tmp_path / "rankd.db", "SELECT max(number) FROM generations")
        paused.send_signal(signal.SIGCONT)
        _, said = await paused.communicate()
    assert paused.returncode != 0
    assert b"another instance is the prioritizer now; this one stops" in said
    assert rows(tmp_path / "rankd.db", "SELECT max(number) FROM generations") == [(before,)]


# --- start and stop -----------------------------------------------------------------------------------------


def threads() -> set[str]:
    """But for those of the event loop itself, which it keeps."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


@pytest.mark.parametrize("name", SERVICES)
async def test_ten_starts_and_stops_leave_nothing_behind(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    async with asyncio.timeout(PATIENCE_S), Bus(broker.url, "probe") as bus:
        with suppress(Unavailable):
            await ask_health(bus, name)  # our own first request makes a task as well
        tasks, names = asyncio.all_tasks(), threads()
        for _ in range(10):
            async with running(service, options):
                await ready(bus, name)
            assert asyncio.all_tasks() <= tasks
            assert threads() <= names
    assert rows(tmp_path / "rankd.db", "SELECT epoch FROM roles WHERE name = ?", name) == [(10,)]


@pytest.mark.parametrize("yields", [0, 1, 3, 10, 30, 100, 300])
@pytest.mark.parametrize("name", SERVICES)
async def test_a_stop_in_the_middle_of_the_start_is_obeyed(broker, tmp_path, name, yields):
    service, options = service_of(name, tmp_path, broker.url)
    tasks, names = asyncio.all_tasks(), threads()
    async with asyncio.timeout(PATIENCE_S):
        async with running(service, options):
            for _ in range(yields):
                await asyncio.sleep(0)
        assert asyncio.all_tasks() <= tasks
        assert threads() <= names
        async with Bus(broker.url, "probe") as bus, running(service, options):
            await ready(bus, name)  # nothing holds its role


@pytest.mark.parametrize("name", SERVICES)
async def test_a_stop_is_obeyed_while_there_is_no_broker(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    broker.kill()
    tasks = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE_S), running(service, options) as task:
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
    assert asyncio.all_tasks() <= tasks


@pytest.mark.parametrize("name", SERVICES)
async def test_a_stop_is_obeyed_after_the_broker_has_gone(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    async with asyncio.timeout(PATIENCE_S):
        async with Bus(broker.url, "probe") as bus, running(service, options):
            await ready(bus, name)
            broker.kill()
