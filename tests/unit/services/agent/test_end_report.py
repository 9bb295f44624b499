"""What an agent says of jobs whose end it does not see."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankd.core.errors import Refused
from rankd.services.agent.end_report import MOST_SHOWN, left_behind, lost_report, refused_report, unhooked_report
from rankd.services.agent.ledger import Entry
from rankd.services.keeper.state import Claim, Leftover, ProcessRecord
from rankd.wire.message import Report

ENTRY: Entry[int] = Entry(3, 9, [])
STATE = Path("/var/lib/rankd")


@pytest.mark.parametrize("started_at", [None, 5.0])
def test_a_lost_job_has_its_start_if_that_is_known(started_at):
    process = None if started_at is None else ProcessRecord(pid=7, start_time=1, started_at=started_at)
    leftover = Leftover(claim=Claim(allocation=3, job=9), process=process, ended=None)
    assert lost_report(ENTRY, leftover, 8.0) == Report(
        allocation=3, job=9, kind="ended", at=8.0, started_at=started_at, cause="lost"
    )


@pytest.mark.parametrize(
    ("code", "cause", "status"),
    [("no_such_user", "no_such_user", 125), ("not_taken", "not_taken", 125), ("bad_output", "start_failed", 126)],
)
def test_a_refused_job_tells_why(code, cause, status):
    report = refused_report(ENTRY, Refused(code, "not here"), 8.0)
    assert (report.allocation, report.job, report.kind, report.at) == (3, 9, "ended", 8.0)
    assert (report.cause, report.exit_status, report.message, report.drain) == (cause, status, "not here", None)


def test_a_job_that_cannot_have_its_prolog_drains_the_node():
    report = unhooked_report(ENTRY, 8.0)
    assert report.cause == "prolog_failed"
    assert report.drain == report.message
    assert "resume the node then" in report.drain


def test_jobs_that_run_on_are_listed_up_to_a_bound():
    assert left_behind([9], STATE).startswith("1 job runs on without this agent: 9; the node is down until")
    assert "--state /var/lib/rankd, which" in left_behind([9], STATE)
    many = left_behind(range(1, MOST_SHOWN + 2), STATE)
    assert many.startswith("11 jobs run on without this agent: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …; the node")
