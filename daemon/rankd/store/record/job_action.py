"""Cancelling, holding, releasing and signalling jobs. Reads their states and writes what is decided in ``core/change``.

Uses SQLAlchemy Core: each request with a filter builds its statement, which takes 0.2 ms longer than as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, bindparam, func, or_, select, update

from rankd.core.admission.permission import OwnedJob, may
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import ACTIONS, PASSED_OVER, Decide, Decision, permitted, signalled
from rankd.core.change.job_change import VIA, Change, EndRequest, JobState
from rankd.core.errors import Refused
from rankd.core.model.array import shown_list, shown_name
from rankd.core.model.id_range import apart, bounds
from rankd.core.model.index_set import count, read
from rankd.core.model.job import Event, State
from rankd.core.model.queue_path import full_path
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.word import NUMBERS, TEXTS
from rankd.store.record.allocation_order import crowded, order_signals
from rankd.store.record.array import cancel_rests, end_arrays, split_these, which_are_arrays
from rankd.store.record.job import apply_changes, read_states
from rankd.store.record.job_name import Target, as_targets, records, records_of, without_records
from rankd.store.record.job_range import IN_RANGES
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import allocations, arrays, associations, jobs, qos, queues
from rankd.wire.job_selection import id_or_name
from rankd.wire.message import Failed, JobFilter, SelectionReply

MAX_SELECTED = 1_000_000

_ACTIVE_IDS = (
    select(jobs.c.id)
    .join_from(jobs, associations, associations.c.id == jobs.c.association_id)
    .join(queues, queues.c.id == jobs.c.queue_id)
    .join(qos, qos.c.id == jobs.c.qos_id)
    .where(IS_ACTIVE, or_(jobs.c.state != State.RUNNING.value, jobs.c.id.not_in(select(arrays.c.job_id))))
    .order_by(jobs.c.id)
)
_COLUMNS: dict[str, ColumnElement[Any]] = {
    "ids": jobs.c.id,
    "users": jobs.c.user,
    "accounts": associations.c.account,
    "queues": func.lower(queues.c.path),
    "partitions": queues.c.partition,
    "states": jobs.c.state,
    "names": jobs.c.name,
    "qos": qos.c.name,
}
"""The column of each list in a filter."""

_QUEUES = (
    select(jobs.c.id, queues.c.partition, queues.c.path)
    .join_from(jobs, queues, queues.c.id == jobs.c.queue_id)
    .where(jobs.c.id.in_(values_of("ids")))
)
_CANCELLED = jobs.c.id.in_(values_of("ids"))
_CANCELLED_BY = (
    update(jobs).where(_CANCELLED).values(cancelled_by=bindparam("asker"), cancelled_via=bindparam("gateway"))
)
_TO_END = (
    update(allocations)
    .where(
        allocations.c.cancel.is_(None),
        allocations.c.ended_at.is_(None),
        allocations.c.id.in_(select(jobs.c.allocation_id).where(_CANCELLED)),
    )
    .values(cancel="cancel")
)


def select_ids(connection: Connection, chosen: JobFilter) -> list[int]:
    """Ids of jobs that have not ended and match the filter, ascending.

    Queue names ignore case; ``root.`` may be left out. The record of an array of which no task is pending is left
    out: its tasks have records of their own.

    The ids of the filter are records, and ranges.
    """
    given: dict[str, Sequence[object] | None] = {name: getattr(chosen, name) for name in _COLUMNS}
    if chosen.id is not None:
        given["ids"] = [chosen.id]
    if chosen.queues is not None:
        given["queues"] = [full_path(queue).lower() for queue in chosen.queues]
    wanted = {name: values for name, values in given.items() if values is not None}
    terms: dict[str, ColumnElement[bool]] = {
        name: _COLUMNS[name].in_(values_of(name, NUMBERS if name == "ids" else TEXTS)) for name in wanted
    }
    named = apart(chosen.ids or ())
    if named.ranges:
        terms["ids"] = or_(terms["ids"], jobs.c.id.in_(IN_RANGES))
        wanted |= {"ids": named.names, "ranges": bounds(named.ranges)}
    query = _ACTIVE_IDS.where(*terms.values())
    if chosen.after is not None:
        query = query.where(jobs.c.id > chosen.after)
    return list(connection.execute(query.limit(min(chosen.limit, MAX_SELECTED)), wanted).scalars())


def act(
    connection: Connection,
    wanted: Iterable[Target | int],
    asker: Submitter,
    now: float,
    decide: Decide,
    *,
    dry_run: bool = False,
    action: str | None = None,
) -> SelectionReply:
    """Apply a decision to each target; a failure does not stop the others. ``dry_run``: decide, but write nothing.

    ``action``: what the rights are checked for; None: that of the decision in :data:`.ACTIONS`.

    A task without a record is decided about by the record of its array. It gets its own record if that allows the
    change.
    """
    targets = as_targets(wanted)
    states = read_states(connection, records(targets))
    found_in = _foreign_queues(connection, states, asker)
    outcome = _Outcome([], [], [], [], [], [])
    allowed: list[Target] = []
    for target in targets:
        try:
            queue = found_in.get(target.job)
            state = permitted(target.job, _state_of(target, states), asker, action or ACTIONS[decide], queue)
            decision = decide(target.job, state, asker, now)
        except Refused as error:
            if not (target.of_whole and error.code in PASSED_OVER):
                name = _name_of(target, states)
                outcome.failed.append(Failed(id=name, code=error.code, message=error.message))
            continue
        if target.task is None or dry_run:
            outcome.take(target.job, decision, asker, state)
        else:
            allowed.append(target)
    if not dry_run:
        _act_on_tasks(connection, allowed, asker, now, decide, outcome)
        _write(connection, outcome, asker, now)
    return SelectionReply(done=outcome.done, failed=outcome.failed, names=outcome.names, jobs=sum(outcome.jobs))


def send_signals(
    connection: Connection, wanted: Iterable[Target | int], asker: Submitter, now: float, number: int, *, dry_run: bool
) -> SelectionReply:
    """Let the nodes of these running jobs send a signal to their processes."""
    targets = as_targets(wanted)
    decide = signalled(number, crowded(connection, records(targets)))
    reply = act(connection, targets, asker, now, decide, dry_run=dry_run, action="job.signal")
    if not dry_run:
        order_signals(connection, reply.done, number)
    return reply


def closed_jobs(connection: Connection, jobs: Iterable[int], asker: Submitter, action: str) -> set[int]:
    """Those of these jobs that exist, and with which this asker may not do this."""
    if asker.privileged:
        return set()
    states = read_states(connection, list(jobs))
    found_in = _foreign_queues(connection, states, asker)
    owned = {job: OwnedJob(job, state.user, found_in.get(job)) for job, state in states.items()}
    return {job for job, one in owned.items() if may(asker, action, one) is not None}


def _state_of(target: Target, states: Mapping[int, JobState]) -> JobState | None:
    """The state of a record, or that of a task's array under the name of the task."""
    state = states.get(target.job)
    if state is None or target.task is None:
        return state
    return msgspec.structs.replace(state, array_job=target.job, array_task=target.task, array=None)


def _name_of(target: Target, states: Mapping[int, JobState]) -> int | str:
    """How people name it: a task by its array and index, not by the id of its record."""
    state = states.get(target.job)
    return target.name if state is None or target.task is not None else id_or_name(target.job, state.name(target.job))


class _Outcome(NamedTuple):
    """What was decided. ``names`` and ``jobs``: the name of each that is done, and how many jobs and tasks it is."""

    changes: list[Change]
    ends: list[EndRequest]
    done: list[int]
    failed: list[Failed]
    names: list[str]
    jobs: list[int]

    def take(self, job: int, decision: Decision, asker: Submitter, state: JobState) -> None:
        """Add the decision about a job that was in this state."""
        self.done.append(job)
        self.names.append(shown_name(job, state.array_job, state.array_task, shown_list(state.array), None))
        self.jobs.append(1 if state.array is None else count(read(state.array)))
        if isinstance(decision, EndRequest):
            self.ends.append(decision)
        else:
            self.changes.append(_through(decision, asker))


def _act_on_tasks(
    connection: Connection, targets: Sequence[Target], asker: Submitter, now: float, decide: Decide, outcome: _Outcome
) -> None:
    """Give these tasks records of their own, and decide about each."""
    ids = split_targets(connection, targets, asker.user, now)
    states = read_states(connection, ids)
    for job in ids:
        try:
            outcome.take(job, decide(job, states[job], asker, now), asker, states[job])
        except Refused as error:
            outcome.failed.append(
                Failed(id=id_or_name(job, states[job].name(job)), code=error.code, message=error.message)
            )


def split_targets(connection: Connection, targets: Sequence[Target], actor: str, now: float) -> list[int]:
    """Give the tasks among the targets records of their own; returns all records.

    Raises:
        Refused: ``array_too_large``.
    """
    found = [target.job for target in targets if target.task is None]
    for array, indices in without_records(targets).items():
        split_these(connection, array, indices, actor, now)
        found += [record for _, record in sorted(records_of(connection, array, indices).items())]
    return found


def _write(connection: Connection, outcome: _Outcome, asker: Submitter, now: float) -> None:
    cancelled = [change.job for change in outcome.changes if change.event is Event.CANCEL]
    of_arrays = which_are_arrays(connection, cancelled) if cancelled else set()
    rests = [change for change in outcome.changes if change.job in of_arrays]
    others = [change for change in outcome.changes if change.job not in of_arrays]
    apply_changes(connection, [*others, *cancel_rests(connection, rests, now)], now)
    end_arrays(connection, sorted(of_arrays), now)
    _request_ends(connection, outcome.ends, asker)


def _foreign_queues(
    connection: Connection, states: Mapping[int, JobState], asker: Submitter
) -> dict[int, tuple[str, str]]:
    """The partition and path of the queue of each job that is not the asker's; nothing for an administrator."""
    ids = [] if asker.privileged else [job for job, state in states.items() if state.user != asker.user]
    if not ids:
        return {}
    return {job: (partition, path) for job, partition, path in connection.execute(_QUEUES, {"ids": ids})}


def _through(change: Change, asker: Submitter) -> Change:
    """The change, with the gateway that vouched for the asker."""
    if asker.via is None:
        return change
    return msgspec.structs.replace(change, detail={**(change.detail or {}), VIA: asker.via})


def _request_ends(connection: Connection, ends: Sequence[EndRequest], asker: Submitter) -> None:
    """Record that these jobs have to end, and who requested it. Their nodes read it."""
    if not ends:
        return
    ids = [end.job for end in ends]
    connection.execute(_CANCELLED_BY, {"ids": ids, "asker": asker.user, "gateway": asker.via})
    connection.execute(_TO_END, {"ids": ids})
