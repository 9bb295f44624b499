"""Allocations: committed by the scheduler, then published from the records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.model.job import Event, JobRequest, State
from rankd.core.model.node import NodeState
from rankd.core.model.nodelist import fold
from rankd.core.model.quantity import Resources
from rankd.store.job import MAX_JOB_BYTES, Change, apply_changes, last_id, read_states
from rankd.wire.message import AllocationMessage, StartJob

_REQUEST = msgspec.json.Decoder(JobRequest)

AROUND_BYTES = 1_000
"""What a start holds beside the request and the nodes, about."""


class NewAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A placement to be committed: by which cycle, on which generation, from which rank."""

    job: int
    revision: int
    nodes: tuple[str, ...]
    resources: Resources
    charge_rate: float
    generation: int
    rank: int


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Why jobs of a queue (0: of any without a row of its own) wait that ask for the same.

    ``time_limit_s`` -1: none stated; ``user`` empty: any; ``application`` -1: a job that is its own, -2: any.
    """

    queue: int
    shape: int
    time_limit_s: float
    user: str
    application: int
    reason: str
    fact: str


class ReservationRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a pending job is promised."""

    job: int
    nodes: tuple[str, ...]
    starts_at: float


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """A message for one node, with an id that is the same each time it is made of the same records."""

    node: str
    message: AllocationMessage
    message_id: str


def commit_allocations(connection: Connection, new: Sequence[NewAllocation], cycle: int, now: float) -> int:
    """Allocate what is still as the cycle saw it; returns how many.

    Others were cancelled or held meanwhile, or a node of theirs takes nothing more.
    """
    up = _nodes_up(connection, {node for entry in new for node in entry.nodes})
    states = read_states(connection, [entry.job for entry in new])
    revisions = _revisions(connection, [entry.job for entry in new])
    next_id = last_id(connection, "allocations") + 1
    changes: list[Change] = []
    rows: list[tuple[object, ...]] = []
    parts: list[tuple[int, str]] = []
    for entry in new:
        state = states.pop(entry.job, None)  # popped: a job that is named twice is allocated once
        if state is None or state.state is not State.PENDING or revisions[entry.job] != entry.revision:
            continue
        if not up.issuperset(entry.nodes):
            continue
        allocation = next_id + len(rows)
        nodes = json.dumps(entry.nodes)
        rows.append((allocation, entry.job, cycle, entry.generation, entry.rank, nodes,
                     json.dumps(entry.resources), entry.charge_rate, now))  # fmt: skip
        parts += [(allocation, node) for node in entry.nodes]
        changes.append(
            Change(
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
        )
    if rows:
        connection.exec_driver_sql(
            "INSERT INTO allocations (id, job_id, cycle, generation, rank, nodes, resources, charge_rate,"
            " allocated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        connection.exec_driver_sql("INSERT INTO allocation_nodes (allocation_id, node) VALUES (?, ?)", parts)
        apply_changes(connection, changes, now)
    return len(rows)


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
    """Why jobs wait, as the newest cycle found it; ``before`` is what is stored, None if that is not known."""
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
    """What the newest cycle promises, instead of what the one before did."""
    connection.exec_driver_sql("DELETE FROM reservations")
    if reservations:
        connection.exec_driver_sql(
            "INSERT INTO reservations (job_id, cycle, nodes, starts_at, made_at) VALUES (?, ?, ?, ?, ?)",
            [(row.job, cycle, json.dumps(row.nodes), row.starts_at, now) for row in reservations],
        )


def last_cycle(connection: Connection) -> int:
    """The newest cycle that allocated anything; 0 before the first."""
    return int(connection.exec_driver_sql("SELECT coalesce(max(cycle), 0) FROM allocations").scalar_one())


class Unpublished(msgspec.Struct, frozen=True, kw_only=True):
    """Messages still to be sent, starts before cancels, and the ids of the allocations in them."""

    starts: list[Publication]
    started: list[int]
    cancels: list[Publication]
    cancelled: list[int]


def unpublished(connection: Connection) -> Unpublished:
    """What the records say is not sent yet."""
    starts: dict[tuple[int, str], list[tuple[StartJob, int]]] = {}
    rows = connection.exec_driver_sql(
        'SELECT l.id, l.job_id, l.cycle, l.nodes, l.resources, j."user", j.name, j.request'
        " FROM allocations l JOIN jobs j ON j.id = l.job_id WHERE l.published = 0 ORDER BY l.id LIMIT 2000"
    ).all()
    for id_, job, cycle, nodes, resources, user, name, request in rows:
        names = json.loads(nodes)
        for rank, node in enumerate(names):
            start = StartJob(
                allocation=id_,
                job=job,
                user=user,
                name=name,
                nodes=names,
                rank=rank,
                resources=json.loads(resources),
                request=_REQUEST.decode(request),
            )
            starts.setdefault((cycle, node), []).append((start, len(request.encode()) + len(nodes) + AROUND_BYTES))
    cancels, cancelled = _cancellations(connection)
    publications = [
        Publication(
            node=node,
            message=AllocationMessage(starts=jobs),
            message_id=f"start-{node}-{jobs[0].allocation}-{jobs[-1].allocation}",
        )
        for (_, node), sized in starts.items()
        for jobs in _messages(sized)
    ]
    return Unpublished(starts=publications, started=[row[0] for row in rows], cancels=cancels, cancelled=cancelled)


def _messages(jobs: Sequence[tuple[StartJob, int]]) -> Iterator[list[StartJob]]:
    """Jobs and their sizes in parts that a broker takes: several that are together no larger than one may be."""
    part: list[StartJob] = []
    total = 0
    for job, size in jobs:
        if part and total + size > MAX_JOB_BYTES:
            yield part
            part, total = [], 0
        part.append(job)
        total += size
    yield part


def _cancellations(connection: Connection) -> tuple[list[Publication], list[int]]:
    rows = connection.exec_driver_sql(
        "SELECT id, nodes FROM allocations WHERE cancel IS NOT NULL AND cancel_published = 0"
        " AND (ended_at IS NULL OR cancel = 'stray') ORDER BY id"
    ).all()
    by_node: dict[str, list[int]] = {}
    for id_, nodes in rows:
        for node in json.loads(nodes):
            by_node.setdefault(node, []).append(id_)
    publications = [
        Publication(
            node=node,
            message=AllocationMessage(cancels=ids),
            message_id=f"cancel-{node}-{_digest(ids)}",
        )
        for node, ids in by_node.items()
    ]
    return publications, [row[0] for row in rows]


def _digest(ids: Sequence[int]) -> str:
    """Of all ids: the stream drops a message whose id it has seen, and with it whatever else it holds."""
    return hashlib.blake2b(json.dumps(ids).encode(), digest_size=16).hexdigest()


def mark_published(connection: Connection, allocations: Sequence[int], cancels: Sequence[int]) -> None:
    """These are in the stream."""
    for column, ids in (("published", allocations), ("cancel_published", cancels)):
        if ids:
            connection.exec_driver_sql(
                f"UPDATE allocations SET {column} = 1 WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(ids)),),
            )
