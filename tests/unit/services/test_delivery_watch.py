"""From when on an allocation that a node did not request is overdue; and which reports are recorded together."""

import asyncio

import pytest
from builder import NOW, new_database

from rankd.bus.liveness import Loops
from rankd.core.model.delivery import Waiting
from rankd.core.model.service_setting import NodeSettings
from rankd.core.session.step import StepEnd
from rankd.services.intake import delivery
from rankd.services.intake.delivery import Deliveries
from rankd.services.intake.intake import ROLE
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.url import open_database
from rankd.wire.codec import encode
from rankd.wire.message import ReportMessage, ReportsTaken

TIMEOUT_S = 15.0


class Bus:
    """A connection that has lasted for ever."""

    def __init__(self):
        self.loops = Loops()

    def connected_for_s(self):
        return 1e9


class Watch:
    """The watch of an intake that was started at 0, with an allocation that waits since then."""

    now = 0.0

    def __init__(self):
        settings = NodeSettings(take_timeout_s=TIMEOUT_S)
        self.deliveries = Deliveries(lambda: settings, None, Bus(), None, lambda: self.now)

    def is_overdue(self, at):
        self.now = at
        oldest = Waiting(node="n1", allocation=1, job=1, allocated_at=0.0, heard_at=at)
        return self.deliveries._is_overdue(oldest, at)


async def test_an_intake_that_takes_over_counts_from_then_on():
    """It has run beside the holder for long. The nodes could ask nobody while the holder was gone."""
    watch = Watch()
    assert watch.is_overdue(TIMEOUT_S + 1)
    watch.now = 100.0
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.deliveries.run())
        await asyncio.sleep(0)
        task.cancel()
    assert not watch.is_overdue(100 + TIMEOUT_S)
    assert watch.is_overdue(101 + TIMEOUT_S)


@pytest.mark.parametrize("away_s", [1.0, 500.0])
async def test_what_nodes_could_not_request_is_not_overdue(away_s):
    watch = Watch()
    watch.now = 100.0
    watch.deliveries.hear(False)
    await watch.deliveries.run_once(100 + away_s)  # it would read the records, which this one has not
    watch.now = 100 + away_s
    watch.deliveries.hear(True)
    assert not watch.is_overdue(100 + away_s + TIMEOUT_S)
    assert watch.is_overdue(101 + away_s + TIMEOUT_S)


@pytest.fixture
def directory(tmp_path):
    """With a database, which Alembic makes in an event loop of its own, so before the test's."""
    new_database(tmp_path)
    return tmp_path


async def test_ends_of_steps_on_many_nodes_are_recorded_together_and_nobody_is_told(directory, monkeypatch):
    parts, told = [], []
    taking = delivery.take_step_ends

    def take(connection, ends, now):
        parts.append(len(ends))
        taking(connection, ends, now)

    monkeypatch.setattr(delivery, "take_step_ends", take)

    async def tell(*_):
        told.append(1)

    async with open_database(f"sqlite:///{directory / 'rankd.db'}", durable=False) as database:
        await database.take_role(ROLE, NOW)
        group = GroupCommit(database, ROLE, tell, tell)
        deliveries = Deliveries(NodeSettings, database, Bus(), group, lambda: NOW)
        message = encode(ReportMessage(reports=[], steps=[StepEnd(allocation=1, number=0, at=NOW, exit_status=0)]))
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(deliveries.report(f"n{n}", message)) for n in range(20)]
            await asyncio.sleep(0)
            await group.run_once()
    assert [task.result() for task in asked] == [ReportsTaken(taken=0)] * 20
    assert (parts, told) == ([20], [])
