"""Arrays over the bus: what their submission answers and refuses, and their tasks by name in each request."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import an_intake

JOB = {"command": ["true"], "held": True}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        yield stage


async def test_the_answer_has_the_number_of_tasks_and_a_key_gives_the_same_array(stage):
    asked = {**JOB, "array": "0-99%4", "key": "k"}
    first = (await stage.do("job.submit", asked)).body
    assert (first, (await stage.do("job.submit", asked)).body) == ({"id": 1, "tasks": 100}, first)
    batch = (await stage.do("job.submit", {"jobs": [{**JOB, "array": "1,3"}, JOB, {**JOB, "array": "3-1"}]})).body
    assert batch["accepted"] == [{"index": 0, "id": 2, "tasks": 2}, {"index": 1, "id": 3}]
    [refused] = batch["rejected"]
    assert (refused["index"], refused["code"], refused["field"]) == (2, "bad_array", "array")
    assert len(stage.rows("SELECT id FROM jobs")) == 3, "an array is one record"


@pytest.mark.parametrize(
    ("array", "status", "code"),
    [
        ("", 400, "bad_array"),
        ("a", 400, "bad_array"),
        ("3-1", 400, "bad_array"),
        ("0-9:0", 400, "bad_array"),
        ("1,1", 400, "bad_array"),
        ("1-3,2", 400, "bad_array"),
        ("0-9%0", 400, "bad_array"),
        ("0-9%-1", 400, "bad_array"),
        ("0-1000000", 413, "array_too_large"),
        ("4194304", 413, "array_too_large"),
        (",".join(str(3 * n + n % 2) for n in range(21_000)), 413, "array_too_large"),
    ],
)
async def test_what_is_no_array_or_too_large_is_refused(stage, array, status, code):
    refused = await stage.do("job.submit", {**JOB, "array": array})
    assert (refused.status, refused.body["code"], refused.body["field"]) == (status, code, "array")
    assert len(refused.body["message"]) < 300
    assert stage.rows("SELECT id FROM jobs") == []


async def test_every_request_takes_names_of_tasks(stage):
    await stage.do("job.submit", {**JOB, "array": "0-9"})
    for verb in ("job.show", "job.why", "job.history"):
        assert (await stage.do(verb, {"id": "1_3"})).status is None, verb
        assert (await stage.do(verb, {"id": "1_77"})).body["code"] == "unknown_job", verb
        assert (await stage.do(verb, {"id": "1_[2-3]"})).body["code"] == "bad_array", verb
    shown = (await stage.do("job.show", {"id": "1_3"})).body
    assert (shown["id"], shown["array"], shown["array_task"], shown["state"]) == (1, "0-9", 3, "pending")
    for verb in ("job.list", "job.acct", "priority.list"):
        assert len((await stage.do(verb, {"ids": ["1_3", "1_[4-5]"]})).body["jobs"]) <= 1, verb
    assert len(stage.rows("SELECT id FROM jobs")) == 1, "looking makes no record"
    assert len((await stage.do("job.release", {"id": "1_[2-3]"})).body["done"]) == 2
    assert len((await stage.do("job.hold", {"ids": ["1_2", "1_4"]})).body["done"]) == 2
    assert len((await stage.do("job.update", {"id": "1_[4-5]", "comment": "x"})).body["done"]) == 2
    assert (await stage.do("job.update", {"id": "1_4", "array_limit": 2})).body["code"] == "not_an_array"
    assert len((await stage.do("job.cancel", {"ids": ["1_[2-5]"]})).body["done"]) == 4
    listed = (await stage.do("job.list", {"ids": ["1_[2-5]"]})).body["jobs"]
    assert {(row["array_job"], row["array_task"], row["state"]) for row in listed} == {
        (1, index, "cancelled") for index in (2, 3, 4, 5)
    }
    assert stage.rows('SELECT "array" FROM jobs WHERE id = 1') == [("0-1,6-9",)]


async def test_the_whole_array_is_the_rest_and_the_tasks_that_an_action_can_apply_to(stage):
    await stage.do("job.submit", {**JOB, "array": "0-4"})
    await stage.do("job.cancel", {"id": "1_0"})
    await stage.do("job.release", {"id": "1_1"})
    held = (await stage.do("job.hold", {"id": 1})).body
    assert (len(held["done"]), held["failed"]) == (2, [])
    assert (await stage.do("job.cancel", {"id": "1"})).status is None
    assert {state for (state,) in stage.rows("SELECT state FROM jobs")} == {"cancelled"}
    assert (await stage.do("job.cancel", {"id": 1})).body["code"] == "already_ended"
