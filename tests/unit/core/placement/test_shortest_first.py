import numpy as np
from builder import kind, shape, waiting_jobs

from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.job_stream import JobStream
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import WaitingJobs
from rankd.core.placement.shortest_first import ShortestFirst

LONG, SHORT, ENDLESS = (kind(shape(1000), time_limit_s=limit_s) for limit_s in (9.0, 3.0, None))
KINDS = KindTable([LONG, SHORT, ENDLESS])
NONE = np.zeros(3, dtype=bool)


def stream(*jobs, **fields):
    own = waiting_jobs([(job, asked, 0) for job, asked in jobs], list(KINDS.kinds))
    columns = {name: getattr(own, name) for name in ("jobs", "priorities", "kinds")}
    return JobStream(WaitingJobs(**columns | fields), None, by_priority=True)


def walk(*streams, limits=None):
    return ShortestFirst(
        [(place, own, NONE) for place, own in enumerate(streams)], KINDS, NONE, limits or ArrayLimits(), []
    )


def tried(own):
    """The jobs in the order in which they are tried."""
    found = []
    while (turn := own.next()) is not None:
        found.append(turn.job)
    return found


def test_the_shortest_of_all_queues_goes_first_and_jobs_without_a_limit_last():
    assert tried(walk(stream((1, LONG), (2, ENDLESS)), stream((4, SHORT), (3, SHORT)))) == [3, 4, 1, 2]


def test_of_equal_limits_the_earlier_submission_goes_first():
    submitted_at = np.array([5.0, 4.0])
    assert tried(walk(stream((1, LONG), (2, LONG), submitted_at=submitted_at))) == [2, 1]


def test_jobs_that_were_tried_and_kinds_that_are_passed_are_left_out():
    own = stream((1, LONG), (2, LONG), (3, SHORT), (4, ENDLESS))
    own.step()
    rest = walk(own)
    rest.block(0, 1)
    rest.pass_all(np.array([False, False, True]))
    assert tried(rest) == [2]


def test_the_tasks_of_an_array_are_tried_one_by_one_up_to_its_limit():
    own = stream((1, LONG), (2, SHORT), tasks=np.array([3, 2]))
    own.step()
    assert tried(walk(own)) == [2, 2, 1, 1]
    rest = walk(own, limits=ArrayLimits({1: 1}))
    found = []
    while (turn := rest.next()) is not None:
        rest.started(turn.kind, {})
        found.append(turn.job)
    assert found == [2, 2, 1]
    assert [turn.job for turn in rest.limited] == [1]


def test_the_other_tasks_of_an_array_can_be_passed():
    rest = walk(stream((1, LONG), (2, SHORT), tasks=np.array([3, 2])))
    assert rest.next().job == 2
    rest.pass_rest()
    assert rest.next().job == 1
