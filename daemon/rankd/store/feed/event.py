"""Unpublished events, as the relay reads them: by kind, in the order of their ids.

This read follows every commit. So one statement finds out which kinds have news, and only those are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, ColumnElement, Select, and_, func, select

from rankd.config.change import Change as Difference
from rankd.core.change.job_change import VIA
from rankd.core.model.notification import Wanted, is_wanted
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import text_of
from rankd.store.engine.plan import most
from rankd.store.record.dead_letter import has_unpublished, unpublished
from rankd.store.record.relay_mark import Mark
from rankd.store.schema.table import (
    configurations,
    job_events,
    job_notifications,
    jobs,
    node_events,
    queue_events,
    relay_marks,
)
from rankd.wire.configuration import ConfigurationChange
from rankd.wire.message import DeadLetter, NodeChange, QueueChange, Transition

MOST_LINES = 10
"""The most changes of a configuration in an event; the records have all of them."""

Event = Transition | NodeChange | QueueChange | ConfigurationChange


class NamedEvent(NamedTuple):
    """An event, and the name of its user, node or queue for the subject; empty for a configuration."""

    name: str
    event: Event


class Unpublished(NamedTuple):
    """Dead letters and events that are not published yet; events by kind. ``more``: kinds that have further events."""

    letters: Sequence[DeadLetter]
    events: Mapping[Mark, Sequence[NamedEvent]]
    more: Collection[Mark]


class _Kind(NamedTuple):
    query: Select[Any]
    event: Callable[[Any], NamedEvent]


def _node(row: Any) -> NamedEvent:  # noqa: ANN401 - a database row
    event = NodeChange(id=row.id, node=row.node, event=row.event, at=row.at, actor=row.actor, reason=row.reason)
    return NamedEvent(row.node, event)


def _queue(row: Any) -> NamedEvent:  # noqa: ANN401 - a database row
    event = QueueChange(id=row.id, partition=row.partition, queue=row.path, event=row.event, at=row.at, actor=row.actor)
    return NamedEvent(row.path, event)


def _configuration(row: Any) -> NamedEvent:  # noqa: ANN401 - a database row
    changes = msgspec.json.decode(row.changes, type=list[Difference])
    event = ConfigurationChange(
        id=row.id,
        event=row.event,
        at=row.at,
        actor=row.actor,
        n_changes=len(changes),
        changes=[str(change) for change in changes[:MOST_LINES]],
    )
    return NamedEvent("", event)


def _job(row: Any) -> NamedEvent:  # noqa: ANN401 - a database row
    id_, job, event, state, at, actor, cause, via, user, array, task, wanted, has_begun = row
    of_array = {} if array is None else {"array_job": array, "array_task": task}
    change = Transition(id=id_, job=job, event=event, state=state, at=at, actor=actor, cause=cause, via=via, **of_array)
    if wanted is not None and _may_notify(event, wanted, is_task=array is not None, has_begun=has_begun):
        change = msgspec.structs.replace(change, notifies=True)
    return NamedEvent(user, change)


def _may_notify(event: str, wanted: int, *, is_task: bool, has_begun: bool) -> bool:
    """Whether the notifier has to look at the event. An array that has begun starts with no other task."""
    is_known = is_task and has_begun and not wanted & Wanted.TASKS
    return not is_known and is_wanted(event, wanted, is_task=is_task)


def _marked(mark: Mark) -> ColumnElement[int]:
    """The id at the mark; 0 before the first event is published."""
    event = func.coalesce(func.max(relay_marks.c.event_id), 0)
    return select(event).where(relay_marks.c.name == mark).scalar_subquery()


def _is_among_first(mark: Mark, id_: Column[int], number: int) -> ColumnElement[bool]:
    """Whether an event is one of the first after the mark, by its id.

    With the upper bound, a server sorts and joins only those, however many wait.
    """
    first = select(func.min(id_)).where(id_ > _marked(mark)).scalar_subquery()
    return and_(id_ > _marked(mark), id_ < first + most(number))


_MARKED = {
    Mark.NODES: node_events.c.id,
    Mark.QUEUES: queue_events.c.id,
    Mark.CONFIGURATIONS: configurations.c.id,
    Mark.JOBS: job_events.c.id,
}
_NEWS = select(
    has_unpublished(),
    *(func.coalesce(select(func.max(id_)).scalar_subquery(), 0) for id_ in _MARKED.values()),
    *(_marked(mark) for mark in _MARKED),
)
"""Whether there are unpublished letters, the newest event of each kind, and the marks, as :data:`_MARKED` has them."""
_NODES, _QUEUES, _CONFIGURATIONS, _JOBS = node_events.c, queue_events.c, configurations.c, job_events.c
_KINDS = {
    Mark.NODES: _Kind(
        select(_NODES.id, _NODES.node, _NODES.event, _NODES.at, _NODES.actor, _NODES.reason),
        _node,
    ),
    Mark.QUEUES: _Kind(
        select(_QUEUES.id, _QUEUES.path, _QUEUES.partition, _QUEUES.event, _QUEUES.at, _QUEUES.actor),
        _queue,
    ),
    Mark.CONFIGURATIONS: _Kind(
        select(
            _CONFIGURATIONS.id,
            _CONFIGURATIONS.event,
            _CONFIGURATIONS.at,
            _CONFIGURATIONS.actor,
            _CONFIGURATIONS.changes,
        ),
        _configuration,
    ),
    Mark.JOBS: _Kind(
        select(
            _JOBS.id,
            _JOBS.job_id,
            _JOBS.event,
            _JOBS.state,
            _JOBS.at,
            _JOBS.actor,
            _JOBS.cause,
            text_of(_JOBS.detail, f"$.{VIA}"),
            jobs.c.user,
            jobs.c.array_job,
            jobs.c.array_task,
            job_notifications.c.wanted,
            job_notifications.c.has_begun,
        )
        .join_from(job_events, jobs, jobs.c.id == _JOBS.job_id)
        .outerjoin(job_notifications, job_notifications.c.job_id == func.coalesce(jobs.c.array_job, jobs.c.id)),
        _job,
    ),
}


def read_unpublished(connection: Connection, most_events: int, most_letters: int) -> Unpublished:
    """The oldest of each kind, in one transaction, since a transaction's beginning and end cost more than rows."""
    has_letters, *numbers = connection.execute(_NEWS).one()
    newest = dict(zip(_MARKED, numbers, strict=False))
    marks = dict(zip(_MARKED, numbers[len(newest) :], strict=True))
    events = {mark: _read(connection, mark, most_events) if newest[mark] > marks[mark] else [] for mark in _MARKED}
    return Unpublished(
        letters=unpublished(connection, most_letters) if has_letters else [],
        events=events,
        more=[mark for mark, some in events.items() if some and some[-1].event.id < newest[mark]],
    )


def _read(connection: Connection, mark: Mark, number: int) -> list[NamedEvent]:
    event = _KINDS[mark].event
    return [event(row) for row in connection.execute(_query(mark, number))]


@cache
def _query(mark: Mark, number: int) -> Select[Any]:
    id_ = _MARKED[mark]
    return _KINDS[mark].query.where(_is_among_first(mark, id_, number)).order_by(id_)


class LastPublished(NamedTuple):
    """The last event of a job that the stream has to have: its id, its user, and when it happened (UTC seconds)."""

    id: int
    user: str
    at: float


def last_published(connection: Connection) -> LastPublished | None:
    """The job's event at the mark; None if there is none, or it was deleted since."""
    query = select(_JOBS.id, jobs.c.user, _JOBS.at).join_from(job_events, jobs, jobs.c.id == _JOBS.job_id)
    mark = select(relay_marks.c.event_id).where(relay_marks.c.name == Mark.JOBS).scalar_subquery()
    row = connection.execute(query.where(_JOBS.id == mark)).one_or_none()
    return None if row is None else LastPublished(*row)
