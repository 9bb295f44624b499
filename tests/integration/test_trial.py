"""``job.test``: what a submission would meet, without a job."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import JOB, an_intake, joined

RULE = '"default"\nmax_pending_per_user = 6\nmax_shapes_per_user = 3'


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_a_job_that_would_be_accepted_has_its_names_and_leaves_nothing(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.test", {**JOB, "array": "0-3", "queue": "root.small", "qos": "high"})
        assert reply.body == {
            "user": "alice",
            "account": "physics",
            "queue": "root.small",
            "partition": "default",
            "qos": "high",
            "tasks": 4,
        }
        assert stage.states() == {}
        assert stage.rows("SELECT count(*) FROM job_events") == [(0,)]
        assert await stage.submit() == 1


async def test_what_a_submission_would_be_refused_for_is_the_answer(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for job in (
            {**JOB, "queue": "root.nowhere"},
            {**JOB, "qeue": "x"},
            {"command": []},
            {**JOB, "user": "bob"},
            {**JOB, "urgency": 20},
            {**JOB, "depends_on": [{"type": "afterok", "job": 17}]},
            {**JOB, "array": "3-1"},
        ):
            tested, submitted = await stage.do("job.test", job), await stage.do("job.submit", job)
            assert tested.status is not None
            assert (tested.status, tested.body) == (submitted.status, submitted.body)
        several = await stage.do("job.test", {"jobs": [JOB]})
        assert (several.body["code"], several.body["field"]) == ("bad_request", "jobs")


async def test_the_limits_of_pending_jobs_are_checked_and_not_used_up(broker, tmp_path):
    async def answer(verb: str, vcore: int) -> str | None:
        reply = await stage.do(verb, {**JOB, "resources": {"vcore": vcore}})
        return None if reply.status is None else reply.body["code"]

    async with an_intake(broker, tmp_path, unknown_association=RULE) as stage:
        assert [await answer("job.test", vcore) for vcore in range(1, 9)] == [None] * 8
        assert [await answer("job.submit", vcore) for vcore in (1, 2, 2, 2)] == [None] * 4
        assert [await answer("job.test", vcore) for vcore in range(3, 9)] == [None] * 6, "none was counted"
        assert await answer("job.submit", 3) is None
        assert [await answer("job.test", vcore) for vcore in (3, 4)] == [None, "too_many_shapes"]
        assert await answer("job.submit", 3) is None
        assert await answer("job.test", 3) == "too_many_pending"


async def test_what_would_keep_it_from_starting_is_named(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        other = await stage.submit(name="prepare")
        conditions = [{"type": "afterok", "job": other}, {"type": "singleton"}]
        job = {**JOB, "name": "prepare", "held": True, "depends_on": conditions, "resources": {"vcore": 100_000}}
        reply = (await stage.do("job.test", job)).body
        assert [(wait["reason"], wait["reason_fact"]) for wait in reply["waits"]] == [
            ("held", "it asks to be held"),
            ("dependency", f"afterok of job {other} (pending)"),
            ("dependency", f"singleton after job {other}"),
        ]
        assert "no node in partition 'default' offers more than" in reply["warning"]
