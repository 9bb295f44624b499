"""Jobs and their events. Every change of a job is one event in the same transaction.

Ids of jobs and events are dense and in commit order, since all writers take turns. A job's ``revision`` is the id of
its last event. So "what changed since" is one range of an index.

Uses SQLAlchemy Core and bulk rows, although all changes of jobs pass here: the states of 250 jobs take 0.55 ms, as text
0.55 ms; of one job 33 µs, as text 34 µs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import Column, Select, Table, and_, select

from rankd.core.admission.admit import vcore_of
from rankd.core.admission.dependency import blocked_at_submission
from rankd.core.admission.fit import shape_of
from rankd.core.change.job_change import VIA, Change, JobState, Value
from rankd.core.model.application import ApplicationEvent
from rankd.core.model.index_set import written
from rankd.core.model.job import AcceptedJob, Event, State, name_of, next_state
from rankd.store.engine.bulk import NewRows, bulk_insert, bulk_update, insert_all, unread_if_few
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_id, last_ids
from rankd.store.engine.listed import listed, text_of
from rankd.store.engine.word import VALUES
from rankd.store.record.application import application_of, follow, memberships
from rankd.store.record.array_count import count_tasks, insert_arrays
from rankd.store.record.catalog import Catalog, add_association
from rankd.store.record.dependency import insert_waits, stored_dependencies
from rankd.store.record.job_story import tells_story
from rankd.store.record.made_queue import queue_of
from rankd.store.record.notify import insert_notify, without_notify
from rankd.store.record.script import insert_scripts, without_script
from rankd.store.record.wait_part import count_waits
from rankd.store.schema.table import jobs, old_keys

_encode = msgspec.json.Encoder().encode


Key = tuple[str, str | None]
"""A user, and the key of one of the user's jobs."""


_PENDING, _SUBMIT = State.PENDING.value, Event.SUBMIT.value
"""Plain texts: the driver takes ten times as long for a member of an enumeration."""

_OF, _WANTED, _PAIRS = jobs.c, listed("wanted"), listed("wanted", VALUES)

_STATES = select(
    _OF.id,
    _OF.user,
    _OF.state,
    _OF.held,
    _OF.held_by,
    _OF.blocked_by,
    _OF.urgency,
    _OF.allocation_id,
    _OF.requeue,
    _OF.requeues,
    _OF.cancelled_by,
    _OF.cancelled_via,
    _OF.array_job,
    _OF.array_task,
    _OF.array,
    _OF.revision,
).join_from(_WANTED, jobs, _OF.id == _WANTED.c.value)


def _with_keys(table: Table, job: Column[int]) -> Select[Any]:
    """The jobs with the wanted (user, key) in this table."""
    user, key = text_of(_PAIRS.c.value, "$[0]"), text_of(_PAIRS.c.value, "$[1]")
    has_key = and_(table.c.user == user, table.c.key == key)
    return select(table.c.user, table.c.key, job).join_from(_PAIRS, table, has_key)


_JOBS_WITH_KEYS, _OLD_KEYS = _with_keys(jobs, jobs.c.id), _with_keys(old_keys, old_keys.c.job_id)


SCRIPT_PER_JOB = 4_096
"""This many characters of a script count as one more job in a transaction."""


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to insert: who sent it, when, and the gateway that vouched for the sender."""

    accepted: AcceptedJob
    actor: str
    at: float
    via: str | None = None


def weight_of(new: Sequence[NewJob]) -> int:
    """The number of jobs as which these count in a transaction: a large script takes the time of several."""
    return sum(1 + len(one.accepted.request.script or "") // SCRIPT_PER_JOB for one in new)


_JOB_COLUMNS = (
    "id",
    "revision",
    "user",
    "association_id",
    "queue_id",
    "qos_id",
    "application_id",
    "name",
    "state",
    "held",
    "blocked_by",
    "class_value",
    "priority_class",
    "preemption_policy",
    "urgency",
    "nodes",
    "min_nodes",
    "vcore",
    "resources",
    "constraints",
    "exclusive",
    "shape",
    "time_limit_s",
    "begin_at",
    "depends_on",
    "requeue",
    "submitted_at",
    "eligible_at",
    "key",
    "comment",
    "request",
    "groups",
    "held_by",
    "array",
    "array_limit",
    "retry_of",
    "cancel_if_unmet",
)
_APPLICATION = _JOB_COLUMNS.index("application_id")
EVENT_COLUMNS = ("id", "job_id", "event", "state", "at", "actor", "cause", "detail")


class _Seen(NamedTuple):
    """Values shared by jobs of one transaction: columns of equal shapes, ids of applications by (queue, name).

    ``columns``: all columns except the ids, for a job that was sent several times, by its identity and time.
    """

    shapes: dict[object, tuple[int, str]]
    applications: dict[tuple[int, str | None], int | None]
    columns: dict[tuple[int, float], tuple[Value, ...]]


def insert_jobs(connection: Connection, new: Sequence[NewJob], catalog: Catalog) -> list[int]:
    """Insert jobs in this order and return their ids. A known key of the user returns the id of that key's job."""
    known = known_keys(
        connection,
        [(one.accepted.user, one.accepted.request.key) for one in new if one.accepted.request.key is not None],
    )
    ids: list[int] = []
    rows: list[tuple[Value, ...]] = []
    inserted = list[tuple[int, AcceptedJob]]()
    events = []
    seen = _Seen({}, {}, {})
    next_job, next_event = (last + 1 for last in last_ids(connection, "jobs", "job_events"))
    for entry in new:
        key = (entry.accepted.user, entry.accepted.request.key)
        if key[1] is not None and key in known:
            ids.append(known[key])
            continue
        job, event = next_job + len(rows), next_event + len(rows)
        same = (id(entry.accepted), entry.at)
        if same not in seen.columns:
            seen.columns[same] = _columns(connection, entry, catalog, seen)
        rows.append((job, event, *seen.columns[same]))
        detail = None if entry.via is None else json.dumps({VIA: entry.via})
        events.append((event, job, _SUBMIT, _PENDING, entry.at, entry.actor, None, detail))
        inserted.append((job, entry.accepted))
        ids.append(job)
        if key[1] is not None:
            known[key] = job
    if rows:
        insert_all(connection, NewRows("jobs", _JOB_COLUMNS, rows), NewRows("job_events", EVENT_COLUMNS, events))
        insert_scripts(connection, inserted)
        insert_notify(connection, inserted)
        insert_waits(connection, {job: one.request.depends_on for job, one in inserted if one.request.depends_on})
        insert_arrays(connection, [(job, one) for job, one in inserted if one.array is not None])
        begun = {row[_APPLICATION] for row in rows} - {None}
        follow(connection, {cast(int, id_): [ApplicationEvent.SUBMIT] for id_ in begun}, new[0].at)
    return ids


def known_keys(connection: Connection, wanted: Sequence[Key]) -> dict[Key, int]:
    """The jobs of those (user, key) that belong to one, also to a deleted one."""
    if not wanted:
        return {}
    old, present = (connection.execute(query, {"wanted": wanted}).all() for query in (_OLD_KEYS, _JOBS_WITH_KEYS))
    return {(user, key): job for user, key, job in (*old, *present)}


def _shape_columns(accepted: AcceptedJob, known: dict[object, tuple[int, str]]) -> tuple[int, str]:
    """The shape's key and the resources as JSON; computed once for jobs with the same request."""
    request = accepted.request
    amounts = tuple(accepted.resources.items())
    kind = (
        accepted.partition,
        accepted.nodes,
        accepted.min_nodes,
        amounts,
        request.constraints,
        request.exclusive,
        request.time_limit_s,
    )
    if kind not in known:
        known[kind] = shape_of(accepted).key(), json.dumps(accepted.resources)
    return known[kind]


_NO_ARRAY = (None, None)


def _columns(connection: Connection, entry: NewJob, catalog: Catalog, seen: _Seen) -> tuple[Value, ...]:
    """The values of `_JOB_COLUMNS` after the ids."""
    accepted, request = entry.accepted, entry.accepted.request
    shape, resources = _shape_columns(accepted, seen.shapes)
    queue = queue_of(connection, accepted, catalog, entry.at)
    application = (queue, request.application)
    if application not in seen.applications:
        seen.applications[application] = application_of(connection, *application, entry.at)
    blocked = blocked_at_submission(request, entry.at)
    return (
        accepted.user,
        association_of(connection, accepted, catalog, entry.at),
        queue,
        catalog.qos[accepted.qos],
        seen.applications[application],
        name_of(request),
        _PENDING,
        accepted.held,
        blocked,
        accepted.class_value,
        accepted.priority_class,
        accepted.preemption_policy,
        accepted.urgency,
        accepted.nodes,
        accepted.min_nodes,
        vcore_of(accepted.resources),
        resources,
        request.constraints,
        request.exclusive,
        shape,
        request.time_limit_s,
        request.begin_at,
        stored_dependencies(request.depends_on),
        request.requeue,
        entry.at,
        entry.at if blocked is None and not accepted.held else None,
        request.key,
        request.comment,
        _encode(without_notify(without_script(request))).decode(),
        json.dumps(accepted.groups) if accepted.groups else None,
        entry.actor if accepted.held else None,
        *(_NO_ARRAY if accepted.array is None else (written(accepted.array.indices), accepted.array.limit)),
        accepted.retry_of,
        request.cancel_if_unmet,
    )


def association_of(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> int:
    """The id of the job's (account, user), made if this is the user's first job in it."""
    pair = (accepted.account, accepted.user)
    if pair not in catalog.associations:
        catalog.associations[pair] = add_association(connection, *pair, shares=catalog.new_user_shares, now=now)
    return catalog.associations[pair]


def apply_changes(connection: Connection, changes: Sequence[Change], now: float, last_event: int | None = None) -> None:
    """Record events and change jobs accordingly, in this order.

    ``last_event``: the largest id that an event ever got, if it is known, and none was written since.

    Raises:
        InvalidTransition: a job's state does not allow an event; the error has the job's events so far. The caller has
        to roll the transaction back.
    """
    if not changes:
        return
    first = (last_id(connection, "job_events") if last_event is None else last_event) + 1
    with tells_story(connection):
        states = [next_state(change.job, change.state, change.event) for change in changes]
    concerned = [change for change in changes if change.event in _TELLS]
    counted = [change for change in changes if change.event in _TELLS or change.event is Event.START]
    left, array_of = memberships(connection, [change.job for change in counted])
    events = []
    columns_of: dict[int, dict[str, Value]] = {}
    for event, (change, after) in enumerate(zip(changes, states, strict=True), start=first):
        detail = None if change.detail is None else json.dumps(change.detail)
        stored = (change.event.value, after.value)
        events.append((event, change.job, *stored, now, change.actor, change.cause, detail))
        columns = {"state": after.value, "revision": event, **change.columns}
        if change.event in _SETTLES:
            columns.setdefault("settled", None)
        columns_of[change.job] = columns_of.get(change.job, {}) | columns
    for job, waited in count_waits(connection, changes, now).items():
        columns_of[job] |= waited
    with unread_if_few(connection, len(events)):
        bulk_insert(connection, "job_events", EVENT_COLUMNS, events)
        _update_jobs(connection, columns_of)
    _tell_applications(connection, concerned, left, now)
    apply_changes(connection, count_tasks(connection, counted, array_of, now), now)


_SETTLES = (Event.HOLD, Event.RELEASE, Event.UPDATE, Event.ELIGIBLE)
"""Events that change a pending job in more than the tasks that an array still has."""


def _update_jobs(connection: Connection, columns_of: Mapping[int, Mapping[str, Value]]) -> None:
    """Change these columns by job, with one statement for all jobs that have the same columns."""
    by_columns: dict[tuple[str, ...], list[tuple[Value, ...]]] = {}
    for job, columns in columns_of.items():
        by_columns.setdefault(tuple(columns), []).append((*columns.values(), job))
    for names, rows in by_columns.items():
        bulk_update(connection, "jobs", names, rows)


_FAILURES = (Event.FAIL, Event.TIME_OUT, Event.LOSE_NODE, Event.EXCEED_MEMORY)
_TELLS: Mapping[Event, ApplicationEvent] = {
    Event.UPDATE: ApplicationEvent.EMPTY,
    Event.ALLOCATE: ApplicationEvent.ALLOCATE,
    Event.REQUEUE: ApplicationEvent.SUBMIT,
    Event.TAKE_BACK: ApplicationEvent.SUBMIT,
    **dict.fromkeys((*_FAILURES, Event.COMPLETE, Event.CANCEL), ApplicationEvent.EMPTY),
}
"""The event that an event of a job may cause for its application."""


def _tell_applications(connection: Connection, changes: Sequence[Change], left: Mapping[int, int], now: float) -> None:
    """Pass events on to applications. ``left``: each job's former application, which an update may have changed."""
    events: dict[int, list[ApplicationEvent]] = {}
    for change in changes:
        before = left.get(change.job)
        after = change.columns.get("application_id", before)
        if after != before and isinstance(after, int):
            events.setdefault(after, []).append(ApplicationEvent.SUBMIT)
        if before is not None and (change.event is not Event.UPDATE or after != before):
            events.setdefault(before, []).append(_TELLS[change.event])
    failed = {left[change.job] for change in changes if change.event in _FAILURES and change.job in left}
    follow(connection, events, now, failed)


def read_states(connection: Connection, jobs: Sequence[int]) -> dict[int, JobState]:
    """The present state of these jobs; unknown ones are left out."""
    rows = connection.execute(_STATES, {"wanted": jobs})
    return {
        id_: JobState(
            user=user,
            state=State(state),
            held=held,
            held_by=held_by,
            blocked_by=blocked,
            urgency=urgency,
            allocation=allocation,
            requeue=requeue,
            requeues=requeues,
            cancelled_by=by,
            cancelled_via=via,
            array_job=rest[0],
            array_task=rest[1],
            array=rest[2],
            revision=rest[3],
        )
        for id_, user, state, held, held_by, blocked, urgency, allocation, requeue, requeues, by, via, *rest in rows
    }
