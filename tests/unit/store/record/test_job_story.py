"""An impossible event of a job is reported with what happened to the job before."""

from __future__ import annotations

import pytest
from builder import NOW, accepted, configuration, new_database

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold
from rankd.core.change.job_change import Change
from rankd.core.errors import InvalidTransition, PastEvent
from rankd.core.model.job import Event, State
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.job import NewJob, apply_changes, insert_jobs
from rankd.store.record.job_action import act

ROOT = Submitter("root", privileged=True)


@pytest.fixture
async def database(tmp_path):
    async with open_database(new_database(tmp_path), durable=False) as opened:
        catalog = await opened.write(lambda c: sync_catalog(c, configuration(), NOW))
        new = [NewJob(accepted=accepted(), actor="alice", at=NOW)] * 2
        await opened.write(lambda c: insert_jobs(c, new, catalog))
        await opened.write(lambda c: act(c, [1, 2], ROOT, NOW + 60, hold))
        await opened.write(lambda c: act(c, [2], ROOT, NOW + 3600, cancel))
        yield opened


async def test_an_impossible_event_tells_the_jobs_story_and_changes_nothing(database):
    start = [
        Change(job=1, state=State.PENDING, event=Event.RELEASE, actor="root"),
        Change(job=2, state=State.CANCELLED, event=Event.START, actor="node:n1"),
    ]
    with pytest.raises(InvalidTransition) as caught:
        await database.write(lambda c: apply_changes(c, start, NOW + 7200))
    assert caught.value.message == (
        "job 2 is cancelled: the event 'start' is not possible in this state; its events: "
        "submit at 2023-11-14T22:13:20Z by alice (then pending), hold at 2023-11-14T22:14:20Z by root (then pending), "
        "cancel at 2023-11-14T23:13:20Z by root (then cancelled)"
    )
    assert caught.value.events[-1] == PastEvent("cancel", "cancelled", NOW + 3600, "root")
    count = await database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM job_events").scalar_one())
    assert count == 5
