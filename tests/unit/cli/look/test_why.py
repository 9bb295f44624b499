"""``rankd why`` in words."""

import pytest

from rankd.cli.look.why import closing, explained
from rankd.core.evaluate.gap import Gap, Way


def test_what_is_not_enough_says_how_far_or_why():
    ways = [
        Way(kind="qos", what="high", closes=True, priority=900, short=-100),
        Way(kind="qos", what="low", closes=False, priority=500, short=300),
        Way(kind="qos", what="normal", closes=False, priority=800, short=0),
        Way(kind="queue", what="root.fenced", closes=False, priority=900, short=-100),
    ]
    head, *lines = closing(Gap(job=8, other=7, jobs=2, ways=ways))
    assert head == "What would put it before job 7 (only these two compared):"
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
        ({"state": "cancelled", "nodelist": ""}, "was cancelled"),
    ],
)
def test_a_job_that_does_not_wait_says_how_it_ended(ended, said):
    job = {"id": 6, "user": "ann", "queue": "root.default", "nodelist": "n1", "exit_status": None, "message": None}
    lines = explained({**job, **ended})
    assert lines == [f"Job 6 of ann in root.default {said}. Only waiting jobs have a place in the queue."]
