"""Allocations, as the scheduler commits them. Their nodes then request them (:mod:`rankd.store.record.delivery`).

Uses SQLAlchemy Core and bulk rows, although every cycle writes here: 100 allocations take 2.9 ms, as text 2.8 ms.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select

from rankd.core.change.job_change import Change
from rankd.core.model.device import GPU
from rankd.core.model.job import Event, State
from rankd.core.model.node import NodeState
from rankd.core.model.nodelist import fold
from rankd.core.model.quantity import Resources
from rankd.core.placement.reason_name import job_in, with_name
from rankd.store.engine.bulk import NewRows, bulk_insert, insert_all
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_ids
from rankd.store.engine.listed import values_of
from rankd.store.engine.prepared import run_each
from rankd.store.engine.word import TEXTS
from rankd.store.record.allocation_device import DevicesOfNodes, devices_of_nodes, insert_devices
from rankd.store.record.array import split_first
from rankd.store.record.job import apply_changes, read_states
from rankd.store.schema.table import allocations, jobs, nodes, reservations, wait_reasons

ACTOR = "scheduler"
KNOWN = ("event", "node_event")
"""In the detail of an allocation's event: the last events of jobs and of nodes that the cycle knew."""
_COLUMNS = (
    "id",
    "job_id",
    "cycle",
    "generation",
    "rank",
    "nodes",
    "resources",
    "charge_rate",
    "allocated_at",
    "devices",
)
_REASON_COLUMNS = ("queue_id", "shape", "time_limit_s", "user", "application_id", "reason", "fact")

_UP = select(nodes.c.name).where(nodes.c.state == NodeState.UP.value, nodes.c.name.in_(values_of("names", TEXTS)))
_ALL_REASONS = delete(wait_reasons)
_TASK_NAMES = select(jobs.c.id, jobs.c.array_job, jobs.c.array_task).where(
    jobs.c.id.in_(values_of("jobs")), jobs.c.array_job.is_not(None)
)
_REASON = delete(wait_reasons).where(
    wait_reasons.c.queue_id == bindparam("queue"),
    wait_reasons.c.shape == bindparam("shape"),
    wait_reasons.c.time_limit_s == bindparam("time_limit_s"),
    wait_reasons.c.user == bindparam("user"),
    wait_reasons.c.application_id == bindparam("application"),
)
_LAST_CYCLE = select(func.coalesce(func.max(allocations.c.cycle), 0))


class NewAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A placement to be committed, with the generation and the rank on which it is based.

    ``of_array``: the job is an array, whose next task gets the placement. ``devices``: their ids by node. ``whole``: of
    an exclusive job, the amounts that it holds on each of its nodes; ``resources`` are those that it asked for.
    ``known``: the last events of jobs and of nodes that the cycle knew, so that it can be replayed.
    """

    job: int
    revision: int
    nodes: tuple[str, ...]
    resources: Resources
    charge_rate: float
    generation: int
    rank: int
    of_array: bool = False
    devices: Mapping[str, tuple[str, ...]] = {}
    whole: Mapping[str, Resources] = {}
    known: tuple[int, int] | None = None


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

    The others were cancelled or held meanwhile, or one of their nodes accepts no more jobs, or one of their devices is
    no longer offered.
    """
    last, last_event = last_ids(connection, "allocations", "job_events")
    devices = devices_of_nodes(connection, {node for entry in new if _uses_devices(entry) for node in entry.nodes})
    tasks = _with_tasks(connection, _possible(connection, new, devices), now)
    possible = list(enumerate(tasks, start=last + 1))
    if not possible:
        return 0
    rows = [
        (id_, entry.job, cycle, entry.generation, entry.rank, json.dumps(entry.nodes), json.dumps(entry.resources),
         entry.charge_rate, now, json.dumps(entry.devices) if entry.devices else None)
        for id_, entry in possible
    ]  # fmt: skip
    parts = [(id_, node, _whole(entry, node)) for id_, entry in possible for node in entry.nodes]
    insert_all(
        connection,
        NewRows("allocations", _COLUMNS, rows),
        NewRows("allocation_nodes", ("allocation_id", "node", "resources"), parts),
    )
    insert_devices(connection, [row for id_, entry in possible for row in devices.rows(id_, entry.devices)])
    is_newest = not any(entry.of_array for entry in tasks)  # else tasks got records, which is an event
    apply_changes(connection, [_change(id_, entry) for id_, entry in possible], now, last_event if is_newest else None)
    return len(possible)


def _whole(entry: NewAllocation, node: str) -> str | None:
    return json.dumps(entry.whole[node]) if node in entry.whole else None


def _uses_devices(entry: NewAllocation) -> bool:
    return bool(entry.devices) or GPU in entry.resources


def _possible(connection: Connection, new: Sequence[NewAllocation], devices: DevicesOfNodes) -> list[NewAllocation]:
    """Those whose job is pending and unchanged, and whose nodes all accept jobs; only the first one of a single job.

    Their devices must still be offered, and no open allocation may hold them.
    """
    up = _nodes_up(connection, {node for entry in new for node in entry.nodes})
    states = read_states(connection, [entry.job for entry in new])
    possible = []
    for entry in new:
        # popped: a job that is named twice is allocated once
        state = states.get(entry.job) if entry.of_array else states.pop(entry.job, None)
        is_unchanged = state is not None and state.state is State.PENDING and state.revision == entry.revision
        if not is_unchanged or not up.issuperset(entry.nodes):
            continue
        is_asked = GPU in entry.resources
        if devices.take(entry.nodes, entry.devices, uses_devices=is_asked, asked=entry.resources):
            possible.append(entry)
    return possible


def _with_tasks(connection: Connection, entries: list[NewAllocation], now: float) -> list[NewAllocation]:
    """The allocations in the same order. Those of arrays are of their first pending tasks, which get records."""
    numbers = Counter(entry.job for entry in entries if entry.of_array)
    tasks = {array: iter(split_first(connection, array, number, ACTOR, now)) for array, number in numbers.items()}
    found = []
    for entry in entries:
        task = next(tasks[entry.job], None) if entry.of_array else entry.job
        if task is not None:
            found.append(entry if task == entry.job else msgspec.structs.replace(entry, job=task))
    return found


def _change(allocation: int, entry: NewAllocation) -> Change:
    return Change(
        job=entry.job,
        state=State.PENDING,
        event=Event.ALLOCATE,
        actor=ACTOR,
        detail={
            "allocation": allocation,
            "nodes": entry.nodes,
            "generation": entry.generation,
            "rank": entry.rank,
            **({"devices": entry.devices} if entry.devices else {}),
            **(dict(zip(KNOWN, entry.known, strict=True)) if entry.known else {}),
        },
        columns={"allocation_id": allocation, "nodelist": fold(entry.nodes)},
    )


def _nodes_up(connection: Connection, names: Collection[str]) -> set[str]:
    return set(connection.execute(_UP, {"names": names}).scalars())


def save_reasons(
    connection: Connection, reasons: Collection[ReasonRow], before: Collection[ReasonRow] | None
) -> tuple[frozenset[ReasonRow], frozenset[ReasonRow]]:
    """Store the newest cycle's reasons for waiting; returns those that are gone and those that are new.

    Tasks get their names in place of the ids of their records. ``before``: the stored rows; None if they are not known,
    then all reasons are new.
    """
    if before is None:
        connection.execute(_ALL_REASONS)
    known = frozenset(before or ())
    gone, new = known.difference(reasons), frozenset(reasons).difference(known)
    run_each(connection, _REASON, [msgspec.structs.asdict(row) for row in gone])
    rows = [msgspec.structs.astuple(row) for row in _with_names(connection, new)]
    bulk_insert(connection, "wait_reasons", _REASON_COLUMNS, rows)
    return gone, new


def _with_names(connection: Connection, rows: Collection[ReasonRow]) -> Collection[ReasonRow]:
    about = {job for row in rows if (job := job_in(row.fact)) is not None}
    if not about:
        return rows
    names = {job: f"{array}_{task}" for job, array, task in connection.execute(_TASK_NAMES, {"jobs": about})}
    return [
        row if (name := names.get(job_in(row.fact) or 0)) is None else _with_fact(row, with_name(row.fact, name))
        for row in rows
    ]


def _with_fact(row: ReasonRow, fact: str) -> ReasonRow:
    return msgspec.structs.replace(row, fact=fact)


def save_reservations(connection: Connection, made: Collection[ReservationRow], cycle: int, now: float) -> None:
    """Replace the stored reservations by those of the newest cycle."""
    connection.execute(delete(reservations))
    rows = [
        {"job_id": row.job, "cycle": cycle, "nodes": json.dumps(row.nodes), "starts_at": row.starts_at, "made_at": now}
        for row in made
    ]
    if rows:
        connection.execute(insert(reservations), rows)


def last_cycle(connection: Connection) -> int:
    """The newest cycle that allocated a job; 0 before the first."""
    return int(connection.execute(_LAST_CYCLE).scalar_one())
