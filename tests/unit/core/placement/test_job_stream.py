"""Jobs of a leaf that go one after another."""

import numpy as np
from builder import no_applications, view

from rankd.core.placement.job_stream import JobStream, streams_of
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.order import Applications


def waiting(kinds, priorities=None, applications=None):
    n = len(kinds)
    return WaitingJobs(
        jobs=np.arange(1, n + 1),
        priorities=np.array(priorities or [0] * n, dtype=np.int64),
        kinds=np.array(kinds, dtype=np.int64),
        applications=None if applications is None else np.array(applications, dtype=np.int64),
        submitted_at=np.arange(n, dtype=np.float64),
    )


def test_blocked_kinds_are_skipped_however_many_there_are():
    for n_blocked in (0, 1, 63, 64, 65, 500):
        stream = JobStream(waiting([0] * n_blocked + [1, 0]), None, by_priority=True)
        stream.skip(np.array([True, False]))
        assert stream.at == n_blocked
        assert not stream.is_done()
        stream.skip(np.array([True, True]))
        assert stream.is_done()


def test_the_best_remaining_priority_is_found_where_priority_does_not_order():
    stream = JobStream(waiting([0, 0, 0], [1, 9, 3]), None, by_priority=False)
    found = []
    while not stream.is_done():
        found.append(stream.best())
        stream.at += 1
    assert found == [9, 9, 3]


def test_a_leaf_that_goes_by_creation_is_one_stream_and_an_empty_one_is_none():
    fifo = view(1, "root.a", 0)
    assert len(list(streams_of(waiting([0, 0], applications=[0, 1]), fifo, {}, no_applications()))) == 1
    assert list(streams_of(waiting([]), fifo, {}, no_applications())) == []


def test_a_leaf_that_goes_by_usage_has_a_stream_per_application_and_one_for_the_other_jobs():
    fair = view(1, "root.a", 0, sort_policy="fair", effective_max={"vcore": 1000})
    named = Applications(
        created_at=np.array([5.0, 6.0]), id_places=np.array([0, 1]), used={0: {"vcore": 500}, 1: {"vcore": 100}}
    )
    streams = list(streams_of(waiting([0] * 5, applications=[0, -1, 1, 0, -1]), fair, {"vcore": 1000}, named))
    assert sorted(stream.waiting.jobs.tolist() for stream in streams) == [[1, 4], [2, 5], [3]]
    in_order = sorted(streams, key=lambda stream: stream.sort_key())
    assert [stream.waiting.jobs.tolist() for stream in in_order] == [[2, 5], [3], [1, 4]]
    in_order[1].application.usage.add({"vcore": 800})
    again = sorted(streams, key=lambda stream: stream.sort_key())
    assert [stream.waiting.jobs.tolist() for stream in again] == [[2, 5], [1, 4], [3]]


def test_a_copy_goes_on_by_itself():
    stream = JobStream(waiting([0, 0]), None, by_priority=True)
    other = stream.copy()
    other.at += 1
    assert (stream.at, other.at) == (0, 1)
