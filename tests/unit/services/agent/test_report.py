"""Reports wait for company under load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.agent.report import GATHER_S, LONGEST_GATHER_S, RecentReports


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 10)), min_size=1))
def test_reports_wait_for_others_never_for_long(rounds):
    recent, now = RecentReports(), 100.0
    for published, pause_s in rounds:
        now += pause_s
        recent.add(published, now)
        assert GATHER_S <= recent.gather_s() <= LONGEST_GATHER_S


def test_a_report_waits_the_longer_the_more_came_of_late():
    lonely, busy, earlier = RecentReports(), RecentReports(), RecentReports()
    busy.add(5, 99.99)
    earlier.add(5, 90.0)
    for recent in (lonely, busy, earlier):
        recent.add(1, 100.0)
    assert lonely.gather_s() < busy.gather_s()
    assert earlier.gather_s() == pytest.approx(lonely.gather_s())
