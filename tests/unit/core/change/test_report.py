"""What nodes' reports do to a job, decided without a database."""

from __future__ import annotations

import msgspec
import pytest

from rankd.core.change.job_change import JobState
from rankd.core.change.report import Allocated, AllocationChange, Part, decide_reports
from rankd.core.model.job import Event, State
from rankd.core.model.outcome import NodeEnd
from rankd.core.model.report import Report

ALLOCATED = JobState(
    user="alice",
    state=State.ALLOCATED,
    held=False,
    blocked_by=None,
    urgency=16,
    allocation=5,
    requeue=True,
    requeues=0,
    cancelled_by=None,
)
NOW = 200.0


def decided(*reports, nodes=("n1",), state=ALLOCATED, max_requeues=3, holders=()):
    parts = {node: Part(started=False, ended_at=None, end=NodeEnd(), holds=node in holders) for node in nodes}
    allocations = {5: Allocated(job=7, allocated_at=100.0, parts=parts)}
    return decide_reports(reports, allocations, {7: state}, max_requeues, NOW)


def report(kind, at=150.0, **fields):
    return Report(allocation=5, job=7, kind=kind, at=at, **fields)


def events(effects):
    return [(change.event, change.actor, change.cause) for change in effects.changes]


def test_a_job_starts_with_its_first_node_and_completes_with_its_last():
    effects = decided(
        ("n1", report("started", 110.0)), ("n2", report("started", 111.0)),
        ("n2", report("ended", 120.0, exit_status=0)), ("n1", report("ended", 121.0, exit_status=0)),
        nodes=("n1", "n2"),
    )  # fmt: skip
    assert events(effects) == [(Event.START, "node:n1", None), (Event.COMPLETE, "node:n1", None)]
    assert (effects.starts, effects.ends) == ([AllocationChange(110.0, 5)], [AllocationChange(121.0, 5)])
    assert [(change.at, change.node) for change in effects.part_starts] == [(110.0, "n1"), (111.0, "n2")]
    assert effects.changes[1].columns == {"ended_at": 121.0, "exit_status": 0, "signal": None}
    assert effects.gang_ends == []


def test_reports_about_what_a_node_was_never_given_change_nothing_and_are_told():
    others = msgspec.structs.replace(report("started"), allocation=6)
    effects = decided(("n2", report("started")), ("n1", others), ("n1", report("started")), ("n1", report("started")))
    assert effects.foreign == [("n2", 5), ("n1", 6)]
    assert [change.node for change in effects.part_starts] == ["n1"]


def test_an_end_that_comes_alone_tells_of_the_start_too():
    effects = decided(("n1", report("ended", 120.0, started_at=110.0, exit_status=3)))
    assert [event for event, _, _ in events(effects)] == [Event.START, Event.FAIL]
    assert effects.part_starts[0].at == 110.0


def test_a_report_counts_once():
    ended = ("n1", report("ended", exit_status=0))
    assert decided(ended, ended) == decided(ended)


@pytest.mark.parametrize(
    ("node", "other"), [("n9", {}), ("n1", {"allocation": 6})], ids=["not its node", "unknown allocation"]
)
def test_a_report_about_what_does_not_exist_changes_nothing(node, other):
    ended = msgspec.structs.replace(report("ended", exit_status=0), **other)
    effects = decided((node, ended))
    assert msgspec.structs.replace(effects, foreign=[]) == decided()
    assert effects.foreign == [(node, ended.allocation)]


def test_a_part_that_goes_wrong_ends_the_other_parts():
    effects = decided(("n2", report("ended", exit_status=1)), nodes=("n1", "n2"))
    assert (effects.gang_ends, effects.changes) == ([5], [])
    assert decided(("n2", report("ended", exit_status=0)), nodes=("n1", "n2")).gang_ends == []


@pytest.mark.parametrize(("requeues", "event"), [(0, Event.REQUEUE), (3, Event.LOSE_NODE)])
def test_a_job_whose_node_is_lost_waits_again_as_often_as_it_may(requeues, event):
    state = msgspec.structs.replace(ALLOCATED, requeues=requeues)
    [change] = decided(("n1", report("ended", cause="node_lost")), state=state).changes
    assert change.event is event
    if event is Event.REQUEUE:
        expected = {"requeues": 1, "allocation_id": None, "nodelist": None, "started_at": None}
        assert change.columns == expected


def test_an_allocation_that_was_not_taken_does_not_count_as_a_requeue():
    [change] = decided(("n1", report("ended", cause="not_taken"))).changes
    assert (change.event, change.actor, change.columns["requeues"]) == (Event.TAKE_BACK, "intake", 0)


def test_a_cancelled_job_is_cancelled_by_who_asked_for_it():
    state = msgspec.structs.replace(ALLOCATED, cancelled_by="root")
    assert events(decided(("n1", report("ended", signal=15, cause="cancel")), state=state)) == [
        (Event.CANCEL, "root", "cancel")
    ]


def test_the_end_of_a_cancelled_job_names_the_gateway_that_vouched_for_who_asked_for_it():
    state = msgspec.structs.replace(ALLOCATED, cancelled_by="alice", cancelled_via="gpu2")
    [end] = decided(("n1", report("ended", signal=15, cause="cancel")), state=state).changes
    assert (end.actor, end.detail["via"]) == ("alice", "gpu2")
    [end] = decided(("n1", report("ended", signal=15))).changes
    assert "via" not in end.detail


def test_an_allocation_that_is_not_the_jobs_present_one_changes_only_its_own_record():
    state = msgspec.structs.replace(ALLOCATED, allocation=6)
    effects = decided(("n1", report("ended", exit_status=0)), state=state)
    assert (len(effects.part_ends), effects.changes, effects.ends) == (1, [], [])


def test_values_that_no_node_can_know_are_brought_within_bounds():
    wild = report("ended", at=1e12, started_at=-5.0, exit_status=10**9, max_rss_bytes=-1, message="m" * 10_000)
    [end] = decided(("n1", wild)).part_ends
    told = (end.report.at, end.report.started_at, end.report.exit_status, end.report.max_rss_bytes)
    assert told == (NOW, 100.0, 255, None)
    assert len(end.report.message) == 4_096


def ends_of_script(*ends, state=ALLOCATED):
    """A script on n1, whose further nodes n2 and n3 hold; ``ends`` are (node, at, fields)."""
    reports = [(node, report("started", 101.0)) for node in ("n1", "n2", "n3")]
    reports += [(node, report("ended", at, **fields)) for node, at, fields in ends]
    return decided(*reports, nodes=("n1", "n2", "n3"), holders=("n2", "n3"), state=state)


CANCELLED = {"signal": 15, "cause": "cancel"}


def test_the_end_of_a_script_ends_the_nodes_that_hold_for_it():
    assert ends_of_script(("n1", 110.0, {"exit_status": 0})).gang_ends == [5]


@pytest.mark.parametrize(
    ("script", "event"),
    [({"exit_status": 0}, Event.COMPLETE), ({"exit_status": 3}, Event.FAIL), ({"cause": "timeout"}, Event.TIME_OUT)],
)
def test_the_script_decides_how_its_job_ended(script, event):
    effects = ends_of_script(("n1", 110.0, script), ("n2", 111.0, CANCELLED), ("n3", 112.0, CANCELLED))
    assert events(effects)[1:] == [(event, "node:n3", script.get("cause"))]


def test_a_node_that_is_lost_after_the_script_has_ended_changes_nothing():
    effects = ends_of_script(
        ("n1", 110.0, {"exit_status": 0}), ("n2", 111.0, {"cause": "node_lost"}), ("n3", 112.0, CANCELLED)
    )
    assert [event for event, _, _ in events(effects)][1:] == [Event.COMPLETE]


def test_a_node_that_is_lost_before_takes_the_script_with_it():
    lost = ("n2", 105.0, {"cause": "node_lost"})
    assert ends_of_script(lost).gang_ends == [5]
    effects = ends_of_script(lost, ("n1", 110.0, CANCELLED), ("n3", 110.0, CANCELLED))
    assert events(effects)[1:] == [(Event.REQUEUE, "node:n3", "node_lost")]


def test_a_script_that_its_user_cancels_is_cancelled():
    state = msgspec.structs.replace(ALLOCATED, cancelled_by="alice")
    effects = ends_of_script(*((node, 110.0, CANCELLED) for node in ("n2", "n1", "n3")), state=state)
    assert [event for event, _, _ in events(effects)][1:] == [Event.CANCEL]


def test_a_failed_prolog_drains_its_node_and_counts_as_a_requeue():
    failed = report("ended", cause="prolog_failed", drain="prolog p ended with 1: no\nscratch")
    effects = decided(("n1", failed))
    assert (events(effects)[0][0], effects.drains) == (Event.TAKE_BACK, {"n1": "prolog p ended with 1: no\\nscratch"})
    assert effects.changes[0].columns["requeues"] == 1
    running = decided(
        ("n2", report("started")), ("n1", failed), ("n2", report("ended", cause="cancel")), nodes=("n1", "n2")
    )
    assert [(change.event, change.columns.get("requeues")) for change in running.changes][-1] == (Event.REQUEUE, 1)


def test_a_failed_epilog_drains_its_node_even_after_the_end_is_known_and_foreign_reports_do_not():
    well = report("ended", exit_status=0)
    late = msgspec.structs.replace(well, drain="x" * 10_000)
    effects = decided(("n1", well), ("n1", late), ("n9", late))
    assert [event for event, _, _ in events(effects)] == [Event.COMPLETE]
    assert {node: len(reason) for node, reason in effects.drains.items()} == {"n1": 500}
