"""Reports that share a transaction change the records as they would one after the other."""

import tempfile

import pytest
from builder import NOW, accepted, add_nodes, configuration, new_database
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.record.report import take_reports
from rankd.wire.message import Report

PLACES = [("a",), ("b",), ("a",), ("a", "b"), ("a", "b", "c"), ("c",), ("c",)]
"""Of the jobs' allocations. The third job is being cancelled; the last two are all of an application."""
CANCELLED = 3
APPLICATION = (6, 7)
TABLES = ("jobs", "job_events", "allocations", "allocation_nodes", "applications")

ENDS = st.sampled_from(
    [
        {"exit_status": 0},
        {"exit_status": 3, "message": "why"},
        {"signal": 15, "cause": "gang"},
        {"signal": 15, "cause": "timeout"},
        {"signal": 15, "cause": "cancel"},
        {"cause": "lost"},
        {"cause": "node_lost"},
    ]
)


KNOWN = [(number, node) for number, nodes in enumerate(PLACES, start=1) for node in nodes]
STRANGE = [(1, "b"), (4, "c"), (len(PLACES) + 1, "a")]
"""A node that is no part of the allocation; an allocation that there is not."""


@st.composite
def one_report(draw):
    """A start, or an end that knows of its start or doesn't."""
    allocation, node = draw(st.sampled_from([*KNOWN, *KNOWN, *STRANGE]))
    at = NOW + draw(st.integers(1, 5))
    base = {"allocation": allocation, "job": draw(st.sampled_from([allocation, 0])), "at": at}
    base["stdout"] = f"/out/{allocation}"
    if draw(st.booleans()):
        return node, Report(kind="started", **base)
    started = draw(st.sampled_from([None, at - 1]))
    return node, Report(kind="ended", started_at=started, **base, **draw(ENDS))


@pytest.fixture(scope="module")
def connection():
    """To a database in which every job is allocated."""
    with tempfile.TemporaryDirectory(prefix="rankd-report-") as directory:
        url = URL.create("sqlite", database=str(new_database(directory)))
        engine = create_engine(url, poolclass=StaticPool, connect_args={"isolation_level": None})
        with engine.connect() as connection:
            catalog = sync_catalog(connection, configuration(), NOW)
            add_nodes(connection, "a", "b", "c")
            jobs = [
                accepted(nodes=len(nodes), request={"application": "app" if number in APPLICATION else None})
                for number, nodes in enumerate(PLACES, start=1)
            ]
            insert_jobs(connection, [NewJob(accepted=job, actor="alice", at=NOW) for job in jobs], catalog)
            placed = [
                NewAllocation(
                    job=number, revision=number, nodes=nodes, resources={}, charge_rate=0.0, generation=1, rank=number
                )
                for number, nodes in enumerate(PLACES, start=1)
            ]
            assert commit_allocations(connection, placed, 1, NOW) == len(PLACES)
            act(connection, [CANCELLED], Submitter("alice", False), NOW, cancel)
            yield connection
        engine.dispose()


def records_after(connection, *transactions):
    """What the tables hold after these; then all is as it was."""
    connection.exec_driver_sql("BEGIN")
    try:
        for reports in transactions:
            take_reports(connection, reports, 1, NOW + 10)
        return {table: connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2").all() for table in TABLES}
    finally:
        connection.exec_driver_sql("ROLLBACK")


@settings(max_examples=effort(67, 200))
@given(reports=st.lists(one_report(), min_size=2, max_size=40))
def test_reports_that_share_a_transaction_change_what_they_would_one_by_one(connection, reports):
    one_by_one = records_after(connection, *([report] for report in reports))
    assert records_after(connection, reports) == one_by_one


def test_a_whole_life_in_one_transaction_is_two_events(connection):
    """And the job is as its last event says, also behind a job that only ended."""
    reports = [
        ("c", Report(allocation=6, job=6, kind="ended", at=NOW + 1, exit_status=0)),
        ("a", Report(allocation=1, job=1, kind="started", at=NOW + 1)),
        ("a", Report(allocation=1, job=1, kind="ended", at=NOW + 2, exit_status=0)),
    ]
    after = records_after(connection, reports)
    job = next(row for row in after["jobs"] if row.id == 1)
    events = [(row.id, row.event) for row in after["job_events"] if row.job_id == 1]
    assert [event for _, event in events[-2:]] == ["start", "complete"]
    assert (job.state, job.revision, job.started_at, job.ended_at) == ("completed", events[-1][0], NOW + 1, NOW + 2)
