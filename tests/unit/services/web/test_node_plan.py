"""A node's jobs and reservations over time: in lanes that do not overlap, on one axis."""

from itertools import combinations

import pytest
from builder import NOW
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.web.node_plan import LANES, MOST_S, WIDTH, axis, plan


def running(number, begun, limit):
    return {"id": number, "started_at": NOW - begun, "time_limit_s": limit}


def test_a_running_job_reaches_to_its_limit_and_a_reservation_follows():
    own = axis([(NOW - 60, NOW + 600), (NOW + 600, NOW + 1_200)], NOW)
    found = plan([running(1, 60, 660)], [{"id": 2, "expected_start_at": NOW + 600, "time_limit_s": 600}], own, NOW)
    first, second = found.bars
    assert (first.kind, second.kind) == ("running", "reserved")
    assert first.x + first.width == pytest.approx(second.x, abs=0.2)
    assert second.x + second.width == pytest.approx(WIDTH, abs=0.2)
    assert first.x < own.now_x < second.x
    assert (first.y, second.y) == (0, 0)


def test_a_job_without_a_limit_has_no_end():
    own = axis([(NOW, None)], NOW)
    [bar] = plan([running(1, 0, None)], [], own, NOW).bars
    assert (bar.is_open, bar.ends_at) == (True, None)
    assert bar.x + bar.width == pytest.approx(WIDTH, abs=0.2)


def test_a_job_over_its_limit_is_drawn_until_now():
    own = axis([(NOW - 900, NOW - 300)], NOW)
    [bar] = plan([running(1, 900, 600)], [], own, NOW).bars
    assert bar.x + bar.width == pytest.approx(own.now_x, abs=0.2)


def test_a_time_far_ahead_does_not_squeeze_the_others():
    own = axis([(NOW, NOW + 100 * MOST_S), (NOW, NOW + 60)], NOW)
    assert own.end == NOW + MOST_S
    assert plan([], [{"id": 1, "expected_start_at": NOW + 2 * MOST_S, "time_limit_s": 60}], own, NOW).bars == []


@given(st.lists(st.tuples(st.floats(0, 1e5), st.one_of(st.none(), st.floats(1, 1e6))), max_size=30))
def test_bars_of_one_lane_do_not_overlap_and_what_has_no_lane_is_counted(spans):
    jobs = [running(number, begun, limit) for number, (begun, limit) in enumerate(spans)]
    own = axis([(NOW - begun, None if limit is None else NOW - begun + limit) for begun, limit in spans], NOW)
    found = plan(jobs, [], own, NOW)
    assert len(found.bars) + found.left_out == len(jobs)
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 2.1 and bar.y < LANES * 14 for bar in found.bars)
    for one, other in combinations([bar for bar in found.bars if bar.width > 2], 2):
        if one.y == other.y:
            assert one.x + one.width <= other.x + 2.2 or other.x + other.width <= one.x + 2.2
