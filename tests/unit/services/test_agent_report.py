"""A message's id follows from the reports in it; reports wait for company under load."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.agent_report import GATHER_S, LONGEST_GATHER_S, RecentReports, id_of
from rankd.wire.message import Report, ReportMessage

REPORT = Report(allocation=1, job=2, kind="ended", at=3.0, exit_status=0)
OTHER = msgspec.structs.replace(REPORT, allocation=4)


def test_the_same_reports_have_the_same_id():
    assert id_of("n.1", ReportMessage(reports=[REPORT])) == id_of("n.1", ReportMessage(reports=[REPORT]))


def test_other_reports_another_order_or_another_node_have_another_id():
    ids = {
        id_of("n1", ReportMessage(reports=[REPORT, OTHER])),
        id_of("n1", ReportMessage(reports=[OTHER, REPORT])),
        id_of("n1", ReportMessage(reports=[REPORT])),
        id_of("n2", ReportMessage(reports=[REPORT])),
        id_of("n1", ReportMessage(reports=[msgspec.structs.replace(REPORT, exit_status=1)])),
    }
    assert len(ids) == 5


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
