"""A job as it was, from its record and its events."""

import pytest

from rankd.store.look.past_job import as_it_was, can_undo, settled

ROW = {
    "id": 7, "revision": 9, "state": "completed", "held": False, "asked_held": False, "urgency": 16, "array": None,
    "eligible_at": 100.0, "eligible_tasks": None, "allocation_id": 3, "blocked_by": None, "depends_on": [],
    "begin_at": None, "submitted_at": 100.0, "nodes": 2, "min_nodes": 2, "time_limit_s": 60.0, "queue": "root.a",
    "resources": {"vcore": 1000},
}  # fmt: skip


def event(id_, name, state="pending", at=None, **given):
    return {"id": id_, "event": name, "state": state, "at": 100.0 if at is None else at, "allocation": None,
            "tasks": None, "detail": None, **given}  # fmt: skip


SUBMIT = event(1, "submit")
ALLOCATE = event(5, "allocate", "allocated", allocation=3)
START = event(7, "start", "running", allocation=3)
END = event(9, "complete", "completed", allocation=3)
STORY = [SUBMIT, ALLOCATE, START, END]


@pytest.mark.parametrize(
    ("revision", "state", "allocation", "has_started"),
    [(1, "pending", None, False), (4, "pending", None, False), (5, "allocated", 3, False), (8, "running", 3, True)],
)
def test_a_state_is_that_of_the_last_known_event(revision, state, allocation, has_started):
    was = as_it_was(ROW, STORY, revision)
    assert (was["state"], was["allocation_id"], was["has_started"]) == (state, allocation, has_started)


def test_a_job_is_not_there_before_its_submission_and_after_its_end():
    assert as_it_was(ROW, STORY, 0) is None
    assert as_it_was(ROW, STORY, 9) is None
    assert as_it_was(ROW | {"state": "pending", "revision": 1}, [SUBMIT], 1)["state"] == "pending"


def test_a_job_that_is_released_later_was_held():
    story = [SUBMIT, event(2, "hold"), event(3, "release", at=300.0), *STORY[1:]]
    assert [as_it_was(ROW, story, at)["held"] for at in (1, 2, 3)] == [False, True, False]
    assert [as_it_was(ROW, story, at)["eligible_at"] for at in (1, 2, 3)] == [100.0, None, 300.0]


def test_a_job_that_was_submitted_as_held_and_is_held_again_was_held():
    story = [SUBMIT, event(2, "hold"), event(9, "cancel", "cancelled")]
    assert as_it_was(ROW | {"asked_held": True, "state": "cancelled"}, story, 1)["held"]


def test_a_job_that_becomes_eligible_later_was_not():
    story = [SUBMIT, event(2, "eligible", at=200.0), *STORY[1:]]
    assert [as_it_was(ROW, story, at)["eligible_at"] for at in (1, 2)] == [None, 200.0]


def test_what_updates_have_changed_is_as_before():
    detail = {
        "time_limit_s": {"before": 30.0, "after": 60.0},
        "queue": {"before": "root.b", "after": "root.a"},
        "resources": {"before": {"vcore": 4, "memory": "1Ki"}, "after": {"vcore": 1}},
        "min_nodes": {"before": None, "after": 2},
        "nodes": {"before": 4, "after": 2},
        "via": "gateway",
    }
    story = [SUBMIT, event(2, "update", detail=detail), *STORY[1:]]
    was = as_it_was(ROW, story, 1)
    assert (was["time_limit_s"], was["queue"], was["nodes"], was["min_nodes"]) == (30.0, "root.b", 4, 4)
    assert was["resources"] == {"vcore": 4000, "memory": 1024}
    assert as_it_was(ROW, story, 2)["time_limit_s"] == 60.0
    assert can_undo(story, 1)


@pytest.mark.parametrize("detail", [None, {}, {"queue": {"before": None, "after": "root.a"}}])
def test_an_update_that_does_not_say_what_was_before_can_not_be_undone(detail):
    story = [SUBMIT, event(2, "update", detail=detail)]
    assert not can_undo(story, 1)
    assert can_undo(story, 2)


def test_an_array_has_the_tasks_that_left_it_since():
    story = [SUBMIT, event(3, "split", tasks="0"), event(6, "split", tasks="1-2"), event(9, "split", tasks="3")]
    row = ROW | {"array": "4-9", "state": "pending"}
    assert [as_it_was(row, story, at)["array"] for at in (1, 3, 6)] == ["0-9", "1-9", "3-9"]


def test_a_task_is_eligible_since_its_array_was():
    split = event(2, "split", detail={"array_job": 1, "array_task": 4, "eligible_at": 50.0})
    story = [split, event(9, "cancel", "cancelled")]
    assert as_it_was(ROW | {"state": "cancelled", "eligible_at": None}, story, 2)["eligible_at"] == 50.0
    held = event(2, "split", detail={"array_job": 1, "array_task": 4, "eligible_at": None, "held": True})
    assert as_it_was(ROW | {"state": "cancelled"}, [held, event(3, "hold"), story[1]], 2)["held"]


def test_taking_tasks_from_an_array_settles_nothing():
    story = [SUBMIT, event(2, "update"), event(3, "split", tasks="0")]
    assert [settled(story, at) for at in (0, 1, 2, 3)] == [0, 1, 2, 2]
    assert settled([event(4, "split")], 9) == 4
