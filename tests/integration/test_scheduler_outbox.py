"""What the scheduler sends, recorded: a real database, and no broker at all."""

from __future__ import annotations

from contextlib import closing

import builder
import pytest
from integration.stage import NOW, Cluster

from rankd.bus.connection import Bus
from rankd.core.errors import RoleLost
from rankd.core.model.delivery import FIRST_PAUSE_S
from rankd.services.scheduler.scheduler import Scheduler
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.delivery import Ask, give


class RecordingOutbox:
    """Keeps what is sent, with the jobs that any other reader of the database sees as allocated at that moment."""

    def __init__(self, path) -> None:
        self.sent: list[tuple] = []
        self._path = path

    async def wake_services(self) -> None:
        self.sent.append(("services", self._allocated()))

    async def wake_nodes(self, nodes) -> None:
        self.sent.append(("nodes", *nodes))

    async def report(self, event) -> None:
        self.sent.append((event.event, event.generation))

    def _allocated(self) -> list[int]:
        with closing(sqlite3.connect(self._path)) as connection:
            return [job for (job,) in connection.execute("SELECT job_id FROM allocations ORDER BY job_id")]

    def take(self) -> list[tuple]:
        sent, self.sent = self.sent, []
        return sent


class Stage(Cluster):
    """A cluster whose scheduler writes into a recording outbox."""

    def __init__(self, *parts) -> None:
        super().__init__(*parts)
        self.outbox = RecordingOutbox(self.database.path)

    def scheduler(self) -> Scheduler:
        source = SchedulingSource(self.configuration, self.catalog)
        return Scheduler(self.configuration, source, self.database, self.outbox)

    async def rank(self, now: float = NOW) -> None:
        await self.prioritizer().run_once(now)


@pytest.fixture
async def stage(tmp_path):
    builder.new_database(tmp_path)
    configuration = builder.configuration()
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        catalog = await database.write(lambda c: sync_catalog(c, configuration, NOW))
        for role in ("prioritizer", "scheduler"):
            await database.take_role(role, NOW)
        yield Stage(configuration, catalog, database, Bus("nats://127.0.0.1:1", "test"))


async def test_services_are_woken_after_the_commit_and_only_if_jobs_were_placed(stage):
    scheduler = stage.scheduler()
    await stage.add_node("n1", vcore=1)
    first, second = await stage.submit(builder.accepted(), builder.accepted())
    await stage.rank()
    assert await scheduler.run_once(NOW)
    assert stage.outbox.take() == [("services", [first])]
    assert not await scheduler.run_once(NOW + 1)
    assert stage.outbox.take() == []
    await stage.end(first)
    assert await scheduler.run_once(NOW + 2)
    assert stage.outbox.take() == [("services", [first, second])]


async def test_a_cycle_that_only_finds_reasons_wakes_nobody(stage):
    scheduler = stage.scheduler()
    await stage.submit(builder.accepted())
    await stage.rank()
    assert not await scheduler.run_once(NOW)
    assert stage.rows("SELECT count(*) FROM wait_reasons") == [(1,)]
    assert stage.outbox.take() == []
    assert await scheduler.nodes.run_once(0.0) == []
    assert stage.outbox.take() == []


async def test_nodes_are_woken_at_once_and_again_until_they_have_taken_their_allocation(stage):
    scheduler = stage.scheduler()
    await stage.add_node("n1", vcore=1)
    await stage.submit(builder.accepted())
    await stage.rank()
    await scheduler.run_once(NOW)
    stage.outbox.take()
    for monotonic in (0.0, FIRST_PAUSE_S / 2, FIRST_PAUSE_S):
        await scheduler.nodes.run_once(monotonic)
    assert stage.outbox.take() == [("nodes", "n1"), ("nodes", "n1")]
    ask = Ask(node="n1", agent="n1", known=None)
    await stage.database.write(lambda c: give(c, [ask], 3, NOW))
    await scheduler.nodes.run_once(1000.0)
    assert stage.outbox.take() == []


async def test_overdue_generations_are_reported_once_and_their_return_once(stage):
    scheduler, after_s = stage.scheduler(), stage.configuration.settings.scheduling.stale_after_s
    await stage.rank()
    for later in (0, 1, after_s + 1, after_s + 2):
        await scheduler.run_once(NOW + later)
    assert stage.outbox.take() == [("stale", 1)]
    await stage.rank(NOW + after_s + 3)
    for later in (4, 5):
        await scheduler.run_once(NOW + after_s + later)
    assert stage.outbox.take() == [("fresh", 2)]


async def test_a_commit_that_fails_is_told_to_nobody(stage):
    scheduler = stage.scheduler()
    await stage.add_node("n1", vcore=1)
    await stage.submit(builder.accepted())
    await stage.rank()
    await stage.database.write(lambda c: c.exec_driver_sql("UPDATE roles SET epoch = epoch + 1"))
    with pytest.raises(RoleLost):
        await scheduler.run_once(NOW)
    assert stage.outbox.take() == []
    assert stage.rows("SELECT * FROM allocations") == []
