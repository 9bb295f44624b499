"""``rankd why`` in words."""

import pytest

from rankd.cli.common.duration import shown_time
from rankd.cli.look.why import closing, explained
from rankd.core.evaluate.gap import Gap, Way
from rankd.core.model.outcome import memory_message

ONLY_WAITING = "Only waiting jobs have a place in the queue."


def test_what_is_not_enough_says_how_far_or_why():
    ways = [
        Way(kind="qos", what="high", closes=True, priority=900, short=-100),
        Way(kind="qos", what="low", closes=False, priority=500, short=300),
        Way(kind="qos", what="normal", closes=False, priority=800, short=0),
        Way(kind="queue", what="root.fenced", closes=False, priority=900, short=-100),
    ]
    head, *lines = closing(Gap(job=8, other=9, jobs=2, ways=ways), {"id": 9, "array_job": 7, "array_task": 3})
    assert head == "What would put it before job 7_3 (only these two compared):"
    assert lines == [
        "  with QoS high: its priority would be 900",
        "  not with QoS low: 500, 300 short",
        "  not with QoS normal: 800, equal, and still behind",
        "  not with queue root.fenced: 900, more than the other's, but its queue or application is behind",
    ]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"state": "running"}, "is running on n1"),
        ({"state": "completed", "exit_status": 0}, "has completed on n1"),
        (
            {"state": "failed", "exit_status": 126, "message": "the working directory /x does not exist"},
            "has failed on n1 with exit status 126: the working directory /x does not exist",
        ),
        ({"state": "failed", "signal": 15}, "has failed on n1 with signal TERM"),
        ({"state": "cancelled", "nodelist": ""}, "was cancelled"),
        (
            {"state": "out_of_memory", "message": memory_message(2**30, None, None)},
            "was killed for memory on n1: asked for 1 GiB; ask for more with --mem",
        ),
    ],
)
def test_a_job_that_does_not_wait_says_how_it_ended(ended, said):
    job = {"id": 6, "user": "ann", "queue": "root.default", "nodelist": "n1", "exit_status": None, "message": None}
    lines = explained({**job, **ended})
    assert lines == [f"Job 6 of ann in root.default {said}. Only waiting jobs have a place in the queue."]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"cancelled_by": "ann"}, " by ann at "),
        ({"cancelled_by": None}, " at "),
        ({"cancelled_by": "prioritizer", "message": "a dependency"}, ": a dependency, at "),
    ],
)
def test_a_task_without_a_record_says_who_cancelled_it_and_when(ended, said):
    job = {"id": 6, "array_job": 6, "array_task": 2, "user": "ann", "queue": "root.a", "nodelist": None}
    [line] = explained({**job, "state": "cancelled", "ended_at": 1_000.0, **ended})
    assert line == f"Job 6_2 of ann in root.a was cancelled{said}{shown_time(1_000.0)}. {ONLY_WAITING}"


def test_other_jobs_are_named_as_people_name_them():
    place = {"rank": 2, "of": 3, "generation": 1, "priority": 5, "override": None, "class_value": 0, "factors": []}
    own = {"id": 6, "array_job": 5, "array_task": 0, "user": "ann", "queue": "root.a", "state": "pending"}
    other = {"priority": 6, "difference": 1, "parts": {}, "decided_by": "queue", "user": "bob"}
    meets = {"queue": "root", "this": {"queue": "root.a", "shows": 5}, "other": {"queue": "root.b", "shows": 6}}
    above = {"id": 9, "array_job": 8, "array_task": 1, **other, "meets": meets}
    rest = {"points_sum": None, "path": [], "reason": "held", "reason_fact": None, "below": None}
    said = explained({**own, **place, **rest, "above": above})
    assert said[0].startswith("Job 5_0 of ann in root.a has rank 2")
    assert "Just above is job 8_1 of bob with 6 (+1). Job 8_1 goes first because" in said[2]
    assert said[3] == "  in root, root.a shows 5 for job 5_0, and root.b shows 6 for job 8_1"
    assert said[-1] == "`rankd release 5_0` lets it start."


UNRANKED = {
    "id": 6, "user": "ann", "queue": "root.a", "state": "pending", "generation": 4, "rank": None, "of": 9,
    "priority": 700, "override": None, "class_value": 0, "factors": [], "points_sum": 700.5, "path": [],
    "above": None, "below": None, "held_by": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "fact", "said"),
    [
        ("held", None, ["It does not run because it is held.", "`rankd release 6` lets it start."]),
        ("begin time", "not before noon", ["It does not run because its begin time has not come: not before noon."]),
        (
            "dependency never satisfied",
            "afterok of job 2 (failed)",
            [
                (
                    "It does not run because it can never start, since it waits for what can't happen any more:"
                    " afterok of job 2 (failed)."
                ),
                "`rankd update 6 --dependency …` changes what it waits for, `rankd cancel 6` cancels it.",
            ],
        ),
    ],
)
def test_of_a_job_that_may_not_start_the_reason_comes_before_its_priority(reason, fact, said):
    assert explained(UNRANKED | {"reason": reason, "reason_fact": fact}) == [
        "Job 6 of ann in root.a has no rank: only jobs that may start now are ranked.",
        *said,
        "Its priority is 700 (generation 4).",
        "               0 class value",
        "        700.5000 sum of the points, cut to a whole number",
    ]


def test_a_reservation_says_when_the_job_starts_at_the_latest():
    waits = {"rank": 2, "reason": "array limit", "reason_fact": None, "expected_start_at": 1_000.0}
    *_, reason, start = explained(UNRANKED | waits | {"reserved_nodes": ["n1", "n2"]})
    assert reason == "It does not run because as many tasks of its array run as may run at a time."
    assert start == f"n[1-2] is reserved for it: it starts at {shown_time(1_000.0)} at the latest."


def test_a_job_that_started_later_than_foreseen_says_by_how_much_and_why():
    late = {
        "made_at": 0.0, "early": 10.0, "late": 20.0, "started_at": 3620.0, "delay_s": 3600.0,
        "causes": [
            {"kind": "later jobs", "count": 7, "named": ["19", "21"], "part": 0.75, "part_s": 2700.0},
            {"kind": "lost nodes", "count": 1, "named": ["n3"], "part": 0.25, "part_s": 900.0},
        ],
    }  # fmt: skip
    job = {"id": 6, "user": "ann", "queue": "root.default", "nodelist": "n1", "exit_status": None, "message": None}
    _, first, *causes = explained({**job, "state": "running", "late": late})
    assert first.startswith("It started 1:00:00 later than foreseen: the forecast of ")
    assert causes == [
        "  75 % (45:00): 7 jobs that were submitted later ran before it or beside it (19, 21, …)",
        "  25 % (15:00): 1 node was lost or drained (n3)",
    ]
