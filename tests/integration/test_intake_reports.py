"""Agents' reports to a running intake: each counts once, in whatever order they come."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import (
    allocate,
    an_intake,
    report,
    send,
    story,
    until_state,
)
from integration.stage import NOW


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


async def test_a_report_is_taken_once_however_often_it_comes(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit(), await stage.submit()]
        first, second = [await allocate(tmp_path, job, "n1") for job in jobs]
        begun, ended = report(first, jobs[0], "started"), report(first, jobs[0], "ended", NOW + 5, exit_status=0)
        await send(stage, "n1", begun, begun, ended, begun, ended, report(second, jobs[1], "started"))
        await until_state(stage, jobs[1], "running")
        assert story(stage, jobs[0]) == ["submit", "allocate", "start", "complete"]
        assert stage.rows("SELECT started_at, ended_at FROM jobs WHERE id = 1") == [(NOW + 1, NOW + 5)]


async def test_an_end_that_overtakes_its_start_tells_both(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        ended = report(allocation, job, "ended", NOW + 5, exit_status=3, started_at=NOW + 1)
        await send(stage, "n1", ended, report(allocation, job, "started"))
        await until_state(stage, job, "failed")
        assert story(stage, job) == ["submit", "allocate", "start", "fail"]
        assert stage.rows("SELECT started_at, ended_at, exit_status FROM jobs") == [(NOW + 1, NOW + 5, 3)]


async def test_a_report_for_an_old_allocation_changes_nothing(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        old = await allocate(tmp_path, job, "n1")
        await send(stage, "n1", report(old, job, "ended", cause="agent_stopped"))
        await stage.until(lambda: story(stage, job)[-1] == "requeue")
        new = await allocate(tmp_path, job, "n2")
        late = [report(old, job, "started"), report(old, job, "ended", exit_status=0), report(99, job, "ended")]
        await send(stage, "n1", *late, report(new, job, "started"))
        await send(stage, "n2", report(new, job, "started"))
        await until_state(stage, job, "running")
        assert story(stage, job) == ["submit", "allocate", "requeue", "allocate", "start"]
        assert stage.rows("SELECT actor FROM job_events WHERE event = 'start'") == [("node:n2",)]


UNREADABLE_REPORTS = [
    b"",
    b"garbage",
    b'{"reports": 3}',
    b'{"reports": [{"allocation": 1, "job": 1, "kind": "exploded", "at": 0}]}',
    b'{"reports": [{"allocation": 36893488147419103232, "job": 1, "kind": "started", "at": 0}]}',
    b'{"reports": [{"allocation": 99, "job": 36893488147419103232, "kind": "ended", "at": 0}]}',
    b'{"reports": [' + b"[" * 100_000,
]


async def test_a_report_that_can_not_be_taken_holds_up_nobody(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        good = report(allocation, job, "ended", exit_status=0)
        await send(stage, "%FF", good)
        await send(stage, "n1", *UNREADABLE_REPORTS, good)
        await until_state(stage, job, "completed")


async def test_a_gang_ends_when_its_last_node_says_so_and_fails_together(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(nodes=2)
        allocation = await allocate(tmp_path, job, "n1", "n2")
        await send(stage, "n1", report(allocation, job, "ended", exit_status=5))
        await stage.until(lambda: stage.rows("SELECT cancel FROM allocations") == [("gang",)])
        await send(stage, "n2", report(allocation, job, "ended", cause="cancel", signal=15))
        await until_state(stage, job, "failed")
        assert stage.rows("SELECT exit_status FROM jobs") == [(5,)]
