"""Alarms about streams: each names the stream and says what to do."""

import pytest

from rankd.bus.stream_alarm import BEHIND_FOR_S, LagClock, alarms
from rankd.wire.diag import FollowerDiag, StreamDiag

GOOD = [FollowerDiag(name="b1"), FollowerDiag(name="b2")]


def stream(**fields):
    return StreamDiag(**{"name": "S", "leader": "b0", "copies": 3, "wanted": 3, "followers": GOOD, **fields})


def test_a_stream_with_all_its_copies_has_no_alarm():
    assert alarms(stream()) == []
    assert alarms(StreamDiag(name="S", leader="", copies=1)) == [], "a server that is in no cluster"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"leader": None, "copies": 0, "followers": []}, "has no leader"),
        ({"is_missing": True, "leader": None}, "is missing: rankd streams rebuild"),
        (
            {"followers": [FollowerDiag(name="b1", is_current=False, silent_s=10)]},
            "the copy of S on broker b1 is away or behind, for 10 s and by 0 operations: start",
        ),
        (
            {"followers": [FollowerDiag(name="b2", is_current=False, behind=7, behind_for_s=BEHIND_FOR_S)]},
            "on broker b2 is away or behind, for 10 s and by 7 operations: start",
        ),
        ({"copies": 1, "followers": []}, "has 1 of the copies that replicas = 3 asks for"),
    ],
)
def test_each_fault_names_the_stream_and_what_to_do(fields, said):
    [alarm] = alarms(stream(**fields))
    assert said in alarm
    assert "S" in alarm


def test_a_copy_that_catches_up_after_a_start_is_no_alarm():
    assert (
        alarms(stream(followers=[FollowerDiag(name="b1", is_current=False, behind=9, behind_for_s=9.9, silent_s=1)]))
        == []
    )


def test_the_time_counts_from_the_first_look_that_found_it_behind_and_begins_again():
    clock, late = LagClock(), [FollowerDiag(name="b1", is_current=False, behind=3)]
    assert [one.behind_for_s for at in (10, 14, 20) for one in clock.note("S", late, at)] == [0, 4, 10]
    assert clock.note("T", late, 21)[0].behind_for_s == 0, "of another stream"
    assert clock.note("S", [FollowerDiag(name="b1")], 22)[0].behind_for_s == 0
    assert clock.note("S", late, 23)[0].behind_for_s == 0
