"""Allocations, as the scheduler commits them. Their nodes then request them (:mod:`rankd.store.record.delivery`)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.change.job_change import Change
from rankd.core.model.job import Event, State
from rankd.core.model.node import NodeState
from rankd.core.model.nodelist import fold
from rankd.core.model.quantity import Resources
from rankd.store.engine.last_id import last_id
from rankd.store.record.job import apply_changes, read_states


class NewAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A placement to be committed, with the generation and the rank on which it is based."""

    job: int
    revision: int
    nodes: tuple[str, ...]
    resources: Resources
    charge_rate: float
    generation: int
    rank: int


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Why jobs of a queue with the same request wait. Queue 0 means any queue without its own row.

    ``time_limit_s`` -1: none given; ``user`` empty: any; ``application`` -1: a job without an application, -2: any.
    """

    queue: int
    shape: int
    time_limit_s: float
    user: str
    application: int
    reason: str
    fact: str


class ReservationRow(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and the start time that are reserved for a pending job."""

    job: int
    nodes: tuple[str, ...]
    starts_at: float


def commit_allocations(connection: Connection, new: Sequence[NewAllocation], cycle: int, now: float) -> int:
    """Allocate the jobs that have not changed since the cycle read them; returns their number.

    The others were cancelled or held meanwhile, or one of their nodes accepts no more jobs.
    """
    first = last_id(connection, "allocations") + 1
    possible = list(enumerate(_possible(connection, new), start=first))
    if not possible:
        return 0
    connection.exec_driver_sql(
        "INSERT INTO allocations (id, job_id, cycle, generation, rank, nodes, resources, charge_rate,"
        " allocated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (id_, entry.job, cycle, entry.generation, entry.rank, json.dumps(entry.nodes),
             json.dumps(entry.resources), entry.charge_rate, now)
            for id_, entry in possible
        ],
    )  # fmt: skip
    connection.exec_driver_sql(
        "INSERT INTO allocation_nodes (allocation_id, node) VALUES (?, ?)",
        [(id_, node) for id_, entry in possible for node in entry.nodes],
    )
    apply_changes(connection, [_change(id_, entry) for id_, entry in possible], now)
    return len(possible)


def _possible(connection: Connection, new: Sequence[NewAllocation]) -> list[NewAllocation]:
    """Those whose job is pending and unchanged, and whose nodes all accept jobs; only the first one of each job."""
    up = _nodes_up(connection, {node for entry in new for node in entry.nodes})
    states = read_states(connection, [entry.job for entry in new])
    revisions = _revisions(connection, [entry.job for entry in new])
    possible = []
    for entry in new:
        state = states.pop(entry.job, None)  # popped: a job that is named twice is allocated once
        is_unchanged = state is not None and state.state is State.PENDING and revisions[entry.job] == entry.revision
        if is_unchanged and up.issuperset(entry.nodes):
            possible.append(entry)
    return possible


def _change(allocation: int, entry: NewAllocation) -> Change:
    return Change(
        job=entry.job,
        state=State.PENDING,
        event=Event.ALLOCATE,
        actor="scheduler",
        detail={
            "allocation": allocation,
            "nodes": entry.nodes,
            "generation": entry.generation,
            "rank": entry.rank,
        },
        columns={"allocation_id": allocation, "nodelist": fold(entry.nodes)},
    )


def _nodes_up(connection: Connection, nodes: Collection[str]) -> set[str]:
    rows = connection.exec_driver_sql(
        f"SELECT name FROM nodes WHERE state = '{NodeState.UP}' AND name IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return {row[0] for row in rows}


def _revisions(connection: Connection, jobs: Sequence[int]) -> dict[int, int]:
    rows = connection.exec_driver_sql(
        "SELECT id, revision FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(jobs)),),
    )
    return {row[0]: row[1] for row in rows}


def save_reasons(connection: Connection, reasons: Collection[ReasonRow], before: Collection[ReasonRow] | None) -> None:
    """Store the newest cycle's reasons for waiting. ``before``: the stored rows; None if they are not known."""
    if before is None:
        connection.exec_driver_sql("DELETE FROM wait_reasons")
    known = frozenset(before or ())
    gone, new = known.difference(reasons), frozenset(reasons).difference(known)
    if gone:
        connection.exec_driver_sql(
            'DELETE FROM wait_reasons WHERE queue_id = ? AND shape = ? AND time_limit_s = ? AND "user" = ?'
            " AND application_id = ?",
            [(row.queue, row.shape, row.time_limit_s, row.user, row.application) for row in gone],
        )
    if new:
        connection.exec_driver_sql(
            'INSERT INTO wait_reasons (queue_id, shape, time_limit_s, "user", application_id, reason, fact)'
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [msgspec.structs.astuple(row) for row in new],
        )


def save_reservations(connection: Connection, reservations: Collection[ReservationRow], cycle: int, now: float) -> None:
    """Replace the stored reservations by those of the newest cycle."""
    connection.exec_driver_sql("DELETE FROM reservations")
    if reservations:
        connection.exec_driver_sql(
            "INSERT INTO reservations (job_id, cycle, nodes, starts_at, made_at) VALUES (?, ?, ?, ?, ?)",
            [(row.job, cycle, json.dumps(row.nodes), row.starts_at, now) for row in reservations],
        )


def last_cycle(connection: Connection) -> int:
    """The newest cycle that allocated a job; 0 before the first."""
    return int(connection.exec_driver_sql("SELECT coalesce(max(cycle), 0) FROM allocations").scalar_one())
