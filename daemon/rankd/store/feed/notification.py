"""What the notifier reads: notifications to send, by lanes, and events that it may have missed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Select, bindparam, exists, func, literal_column, select

from rankd.core.notification.content import Content
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_id
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import in_order, most
from rankd.store.record.notification import MARK, Due, Parcel
from rankd.store.schema.table import job_events, job_notifications, jobs, notifications, relay_marks

MOST_LANES = 64
"""Lanes that one look examines; the next look goes on behind them."""
PART = 10_000
"""Events that one look for missed ones examines."""

_OF, _E, _J = notifications.c, job_events.c, jobs.c
_IS_WAITING = _OF.state == literal_column("'waiting'")
"""In the words of the partial index."""
_NEXT_LANE = select(func.min(_OF.lane)).where(_IS_WAITING, _OF.lane > bindparam("lane"))
_DUE = (
    select(
        _OF.id,
        _OF.event_id,
        _OF.place,
        _OF.job_id,
        _OF.user,
        _OF.target,
        _OF.body,
        _OF.lane,
        _OF.attempts,
        _OF.first_at,
    )
    .where(
        _IS_WAITING,
        _OF.lane == bindparam("lane"),
        _OF.next_at <= bindparam("now"),
        _OF.id.not_in(values_of("taken")),
    )
    .order_by(_OF.next_at, _OF.id)
)
_NOTED = select(relay_marks.c.event_id).where(relay_marks.c.name == MARK)
_FIRST = select(func.min(_E.id)).where(_E.job_id == select(func.min(job_notifications.c.job_id)).scalar_subquery())
_PART = select(_E.id).where(_E.id > bindparam("after")).order_by(_E.id).limit(most(PART)).subquery()
_LAST = select(func.max(_PART.c.id))
_MISSED = (
    select(_E.id)
    .select_from(in_order(job_events, jobs, _J.id == _E.job_id))
    .where(
        _E.id > bindparam("after"),
        _E.id <= bindparam("last"),
        exists().where(job_notifications.c.job_id == func.coalesce(_J.array_job, _J.id)),
    )
    .order_by(_E.id)
)


class Missed(NamedTuple):
    """Events of jobs that notify, after the last one that was looked at. ``last``: how far this went."""

    events: list[int]
    last: int
    more: bool


def next_lane(connection: Connection, after: str) -> str | None:
    """The next lane with waiting notifications, in the order of their names; None behind the last one."""
    lane: str | None = connection.execute(_NEXT_LANE, {"lane": after}).scalar_one()
    return lane


def due_in(connection: Connection, lane: str, number: int, taken: Collection[int], now: float) -> list[Due]:
    """The next notifications of a lane that are to be sent by now, without those that are ``taken``."""
    rows = connection.execute(_next_due(number), {"lane": lane, "now": now, "taken": list(taken)})
    return [_due(row) for row in rows]


@cache
def _next_due(number: int) -> Select[Any]:
    return _DUE.limit(most(number))


def _due(row: Any) -> Due:  # noqa: ANN401 - a database row
    parcel = Parcel(
        event_id=row.event_id,
        place=row.place,
        job=row.job_id,
        user=row.user,
        target=row.target,
        content=msgspec.json.decode(row.body, type=Content),
    )
    return Due(row.id, parcel, row.lane, row.attempts, row.first_at)


def noted_until(connection: Connection) -> int:
    """The last event that was looked at; at first, the one before the first job that notifies."""
    found: int | None = connection.execute(_NOTED).scalar_one_or_none()
    if found is not None:
        return found
    first: int | None = connection.execute(_FIRST).scalar_one()
    return last_id(connection, "job_events") if first is None else first - 1


def missed_events(connection: Connection, after: int) -> Missed:
    """Events of jobs that notify after this one, among the next :data:`PART` events."""
    last: int | None = connection.execute(_LAST, {"after": after}).scalar_one()
    if last is None:
        return Missed([], after, more=False)
    events: Sequence[int] = connection.execute(_MISSED, {"after": after, "last": last}).scalars().all()
    return Missed(list(events), last, more=last - after >= PART)
