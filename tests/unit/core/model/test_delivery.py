"""When nodes are told of their allocations, and when one that nobody takes is taken back."""

import itertools

from rankd.core.model.delivery import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MISSED_HEARTBEATS,
    Hints,
    Waiting,
    is_away,
    is_overdue,
)


def told_at(hints, newest, end, step=0.5):
    times = [n * step for n in range(int(end / step))]
    return [now for now in times if hints.due({"n1": newest(now)}, now)]


def test_pauses_between_hints_of_the_same_allocation_double_up_to_the_longest():
    times = told_at(Hints(), lambda _: (7, 0), 200.0)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[:5] == [FIRST_PAUSE_S, 2.0, 4.0, 8.0, 16.0]
    assert set(pauses[5:]) == {LONGEST_PAUSE_S}


def test_something_new_is_told_at_once_and_pauses_begin_again():
    times = told_at(Hints(), lambda now: (8 if now >= 10.0 else 7, 0), 20.0)
    assert times == [0.0, 1.0, 3.0, 7.0, 10.0, 11.0, 13.0, 17.0]


def test_a_node_is_away_after_three_missed_heartbeats():
    heartbeat_s = 5.0
    assert not is_away(0.0, heartbeat_s, MISSED_HEARTBEATS * heartbeat_s)
    assert is_away(0.0, heartbeat_s, MISSED_HEARTBEATS * heartbeat_s + 0.1)


def test_an_allocation_is_overdue_only_once_its_node_has_had_the_whole_time():
    waiting = Waiting(node="n1", allocation=1, job=1, allocated_at=100.0, heard_at=100.0)
    assert not is_overdue(waiting, 0.0, 15.0, now=115.0)
    assert is_overdue(waiting, 0.0, 15.0, now=115.1)
    assert not is_overdue(waiting, 110.0, 15.0, now=125.0)
