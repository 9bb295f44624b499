"""Reports of agents. Reads the reported allocations and writes what ``core/change/report.py`` decides.

Many reports are read and written together: the number of statements depends on the transaction, not on the reports.

Uses SQLAlchemy Core, although a cluster that starts and ends thousands of jobs a second reports here: 250 starts
take 5.3 ms, as text 5.1 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import and_, bindparam, func, select, update

from rankd.core.change.job_change import Value
from rankd.core.change.report import Allocated, Part, PartChange, ReportEffects, decide_reports
from rankd.core.model.outcome import NodeEnd
from rankd.core.model.report import Report
from rankd.store.engine.bulk import bulk_update
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, text_of, values_of
from rankd.store.engine.plan import in_order
from rankd.store.engine.prepared import run_each
from rankd.store.record.allocation_device import release_devices
from rankd.store.record.allocation_order import forget_orders
from rankd.store.record.device_note import free_cards
from rankd.store.record.idle_job import with_cause
from rankd.store.record.job import apply_changes, read_states
from rankd.store.record.job_step import end_steps
from rankd.store.record.job_story import tells_story
from rankd.store.record.node_action import drain_unfit
from rankd.store.schema.table import allocation_nodes, allocations, job_scripts, jobs

_PART, _OF, _WANTED = allocation_nodes.c, allocations.c, listed("ids")
_ARRAY_OF_JOB = select(jobs.c.array_job).where(jobs.c.id == _OF.job_id).correlate(allocations).scalar_subquery()
"""A task has the script of its array."""
_PARTS = select(
    _OF.id,
    _OF.job_id,
    _OF.allocated_at,
    _PART.node,
    _PART.started_at.is_not(None),
    _PART.ended_at,
    _PART.exit_status,
    _PART.signal,
    _PART.cause,
    and_(job_scripts.c.job_id.is_not(None), text_of(_OF.nodes, "$[0]") != _PART.node),
).select_from(
    in_order(_WANTED, allocations, _OF.id == _WANTED.c.value)
    .join(allocation_nodes, _PART.allocation_id == _OF.id)
    .outerjoin(job_scripts, job_scripts.c.job_id == func.coalesce(_ARRAY_OF_JOB, _OF.job_id))
)

_OF_NODE = update(allocation_nodes).where(
    _PART.allocation_id == bindparam("allocation"), _PART.node == bindparam("of_node")
)
_PART_STARTED = _OF_NODE.where(_PART.started_at.is_(None)).values(
    started_at=bindparam("now"), stdout=bindparam("out"), stderr=bindparam("err")
)
_PART_ENDED = _OF_NODE.where(_PART.ended_at.is_(None)).values(
    ended_at=bindparam("now"),
    exit_status=bindparam("status"),
    signal=bindparam("by_signal"),
    cause=bindparam("why"),
    message=bindparam("text"),
    stdout=func.coalesce(bindparam("out"), _PART.stdout),
    stderr=func.coalesce(bindparam("err"), _PART.stderr),
    max_rss_bytes=bindparam("rss"),
    cpu_s=bindparam("cpu"),
    measured=bindparam("how"),
)
_GANG = update(allocations).where(_OF.id.in_(values_of("ids")), _OF.cancel.is_(None)).values(cancel="gang")


def take_reports(
    connection: Connection, reports: Sequence[tuple[str, Report]], max_requeues: int, now: float
) -> list[tuple[str, int]]:
    """Apply reports of (node, report) in the order of their arrival.

    Returns (node, allocation) of reports about allocations that the node was never given. They have no effect.

    Raises:
        InvalidTransition: a job's state does not allow an event. The caller has to roll the transaction back.
    """
    reports = with_cause(connection, reports)
    allocations = _read_allocations(connection, dict.fromkeys(report.allocation for _, report in reports))
    states = read_states(connection, sorted({allocation.job for allocation in allocations.values()}))
    with tells_story(connection):
        effects = decide_reports(reports, allocations, states, max_requeues, now)
    _write(connection, effects)
    free_cards(connection, [change.allocation for change in effects.ends], now)
    for node, reason in effects.drains.items():
        drain_unfit(connection, node, reason, now)
    apply_changes(connection, effects.changes, now)
    return effects.foreign


def _read_allocations(connection: Connection, ids: Iterable[int]) -> dict[int, Allocated]:
    found: dict[int, Allocated] = {}
    rows = connection.execute(_PARTS, {"ids": ids})
    for id_, job, allocated_at, node, started, ended_at, status, signal, cause, holds in rows:
        if id_ not in found:
            found[id_] = Allocated(job=job, allocated_at=allocated_at, parts={})
        end = NodeEnd(exit_status=status, signal=signal, cause=cause)
        found[id_].parts[node] = Part(started=bool(started), ended_at=ended_at, end=end, holds=bool(holds))
    return found


def _write(connection: Connection, effects: ReportEffects) -> None:
    run_each(connection, _PART_STARTED, [_start_row(change) for change in effects.part_starts])
    run_each(connection, _PART_ENDED, [_end_row(change) for change in effects.part_ends])
    forget_orders(connection, [change.report.allocation for change in effects.part_ends])
    bulk_update(connection, "allocations", ("started_at",), effects.starts)
    bulk_update(connection, "allocations", ("ended_at",), effects.ends)
    release_devices(connection, [change.allocation for change in effects.ends])
    end_steps(connection, [change.allocation for change in effects.ends])
    if effects.gang_ends:
        connection.execute(_GANG, {"ids": effects.gang_ends})


def _start_row(change: PartChange) -> dict[str, Value]:
    report = change.report
    return {
        "allocation": report.allocation,
        "of_node": change.node,
        "now": change.at,
        "out": report.stdout,
        "err": report.stderr,
    }


def _end_row(change: PartChange) -> dict[str, Value]:
    report = change.report
    return _start_row(change) | {
        "status": report.exit_status,
        "by_signal": report.signal,
        "why": report.cause,
        "text": report.message,
        "rss": report.max_rss_bytes,
        "cpu": report.cpu_s,
        "how": report.measured,
    }
