"""A message's id follows from the reports in it."""

from __future__ import annotations

import msgspec

from rankd.services.agent_report import id_of
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
