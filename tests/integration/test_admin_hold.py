"""A job that an administrator holds stays held, whatever its owner asks for. A real intake over a real broker."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import an_intake


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        yield stage


def held(stage, job: int) -> tuple:
    [row] = stage.rows("SELECT held, held_by, state FROM jobs WHERE id = ?", job)
    return row


async def root(stage, verb: str, body: dict) -> dict:
    reply = await stage.ask(f"rankd.v1.admin.root.{verb}", body)
    assert reply.status is None, reply
    return reply.body


ATTEMPTS = [
    ("job.release", {}),
    ("job.update", {"urgency": 5}),
    ("job.hold", {}),
    ("job.update", {"urgency": 0}),
    ("job.update", {"urgency": 16}),
    ("job.release", {}),
    ("job.update", {"begin_at": 1.0}),
    ("job.update", {"begin_at": None}),
    ("job.update", {"queue": "root.small"}),
    ("job.update", {"priority_class": None}),
    ("job.release", {}),
]


@pytest.mark.parametrize("by", ["hold", "urgency", "submission"])
async def test_nothing_that_its_owner_asks_ends_the_hold(stage, by):
    if by == "submission":
        job = (await root(stage, "job.submit", {"command": ["true"], "user": "alice", "held": True}))["id"]
    else:
        job = await stage.submit("alice")
        await root(stage, *(("job.hold", {"id": job}) if by == "hold" else ("job.update", {"id": job, "urgency": 0})))
    for verb, fields in ATTEMPTS:
        reply = await stage.do(verb, {"id": job, **fields})
        assert held(stage, job) == (1, "root", "pending"), (verb, fields)
        assert verb != "job.release" or (reply.status, reply.body["code"]) == (403, "admin_hold")
    reply = await stage.do("job.release", {"filter": {"users": ["alice"]}})
    assert [failed["code"] for failed in reply.body["failed"]] == ["admin_hold"]
    assert (await root(stage, "job.release", {"id": job}))["done"] == [job]
    assert held(stage, job) == (0, None, "pending")


async def test_an_own_hold_is_still_ones_own(stage):
    job = await stage.submit("alice", held=True)
    assert held(stage, job) == (1, "alice", "pending")
    assert (await stage.do("job.release", {"id": job})).status is None
    assert (await stage.do("job.update", {"id": job, "urgency": 0})).status is None
    assert held(stage, job) == (1, "alice", "pending")
    assert (await stage.do("job.update", {"id": job, "urgency": 3})).status is None
    assert held(stage, job) == (0, None, "pending")


async def test_an_administrator_takes_over_a_hold_and_the_owner_is_told_who(stage):
    job = await stage.submit("alice", held=True)
    await root(stage, "job.hold", {"id": job})
    refused = await stage.do("job.release", {"id": job})
    assert "held by the administrator 'root'" in refused.body["message"]
    why = (await stage.do("job.why", {"id": job})).body
    assert (why["held_by"], why["reason_fact"]) == ("root", "the administrator root holds it")
    assert (await stage.do("job.show", {"id": job})).body["held_by"] == "root"
    assert (await stage.do("job.cancel", {"id": job})).status is None, "it may always be cancelled"


async def test_the_events_say_who_held_and_who_let_go(stage):
    job = await stage.submit("alice")
    await root(stage, "job.update", {"id": job, "urgency": 0})
    events = (await stage.do("job.history", {"id": job})).body["events"]
    assert events[-1]["detail"]["held_by"] == {"before": None, "after": "root"}
