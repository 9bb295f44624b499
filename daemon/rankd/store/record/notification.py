"""Notifications on their way: noted once for each event and target, sent, sent again, and given up.

Events are noted by their ids, so an event that is delivered again makes no second notification. A notification that is
done stays, without its content, until its slot is past: slots limit how many a user's jobs may send.

Uses SQLAlchemy Core: noting 100 events takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, case, delete, func, insert, not_, select, update

from rankd.core.errors import RankdError, Refused
from rankd.core.model.notification import Notify, Wanted, is_wanted
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.content import Content
from rankd.core.notification.pace import HOUR_S, is_given_up, next_slot, send_at
from rankd.core.notification.target import MAIL, BadTarget, parse_target, with_domain
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import most
from rankd.store.engine.upsert import upsert
from rankd.store.record.dead_letter import NOTIFICATION, Undelivered, keep
from rankd.store.schema.table import (
    arrays,
    job_events,
    job_notifications,
    jobs,
    notifications,
    queues,
    relay_marks,
)

PART = 250
"""Rows that one transaction deletes."""
MARK = "notified_events"
"""The name in ``relay_marks``: all events up to that id were looked at."""
NO_LANE = "?"
_WAITING, _DONE = "waiting", "done"

_E, _J, _N, _OF = job_events.c, jobs.c, job_notifications.c, notifications.c
_WHOSE = func.coalesce(_J.array_job, _J.id)
_EVENTS = (
    select(
        _E.id,
        _E.event,
        _E.state,
        _E.at,
        _E.cause,
        _J.id.label("job"),
        _J.user,
        _J.name,
        queues.c.path.label("queue"),
        _J.array_job,
        _J.array_task,
        _J.submitted_at,
        _J.started_at,
        _J.ended_at,
        _J.exit_status,
        _J.signal,
        _J.nodelist,
        _N.wanted,
        _N.notify,
        arrays.c.job_id.is_not(None).label("is_array"),
        arrays.c.n_failed,
    )
    .join_from(job_events, jobs, _J.id == _E.job_id)
    .join(job_notifications, _N.job_id == _WHOSE)
    .join(queues, queues.c.id == _J.queue_id)
    .outerjoin(arrays, arrays.c.job_id == _J.id)
    .where(_E.id.in_(values_of("events")))
    .order_by(_E.id)
)
_BEGUN = update(job_notifications).where(_N.job_id == bindparam("array"), not_(_N.has_begun)).values(has_begun=True)
_KNOWN = select(_OF.event_id, _OF.place).where(_OF.event_id.in_(values_of("events")))
_LAST_SLOT = select(func.max(_OF.slot_at)).where(_OF.user == bindparam("user"))
_AFTER = (
    update(notifications)
    .where(_OF.id == bindparam("of"), _OF.state == _WAITING)
    .values(
        state=bindparam("new_state"),
        attempts=_OF.attempts + 1,
        next_at=bindparam("again_at"),
        problem=bindparam("why"),
        target=case((bindparam("new_state") == _DONE, ""), else_=_OF.target),
        body=case((bindparam("new_state") == _DONE, ""), else_=_OF.body),
    )
)
_PAST = select(_OF.id).where(_OF.state == _DONE, _OF.slot_at < bindparam("before")).limit(most(PART))
_PRUNED = delete(notifications).where(_OF.id.in_(_PAST))


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, as a dead letter keeps it. ``target`` is as the user wrote it."""

    event_id: int
    place: int
    job: int
    user: str
    target: str
    content: Content


class Due(NamedTuple):
    """A notification that is to be sent. ``attempts``: those before."""

    id: int
    parcel: Parcel
    lane: str
    attempts: int
    first_at: float


class Outcome(NamedTuple):
    """What an attempt has led to. ``again_at``: when to try again; None if not. ``error``: None if it was sent."""

    due: Due
    error: RankdError | None = None
    again_at: float | None = None


def note_events(connection: Connection, events: Sequence[int], settings: NotificationSettings, now: float) -> int:
    """Note what is to be sent for these events of jobs. Returns the number of new notifications.

    Those that could not be sent in time, because the user's jobs send too many, become dead letters.
    """
    known = {(event, place) for event, place in connection.execute(_KNOWN, {"events": events})}
    slots: dict[str, float] = {}
    rows, late = [], list[Undelivered]()
    for parcel in _parcels(connection, events):
        if (parcel.event_id, parcel.place) in known:
            continue
        slot = next_slot(_last_slot(connection, parcel.user, slots), now, settings.max_per_user_per_h)
        row = _row(parcel, settings, slot, now)
        if is_given_up(now, row["next_at"], settings.retry_for_s):
            late.append(_letter(parcel, now, now, _too_many(settings)))
            continue
        slots[parcel.user] = slot
        rows.append(row)
    if rows:
        connection.execute(insert(notifications), rows)
    keep(connection, late)
    return len(rows)


def _last_slot(connection: Connection, user: str, slots: Mapping[str, float]) -> float | None:
    if user in slots:
        return slots[user]
    found: float | None = connection.execute(_LAST_SLOT, {"user": user}).scalar_one()
    return found


def _too_many(settings: NotificationSettings) -> Refused:
    message = (
        f"the jobs of a user may send {settings.max_per_user_per_h} notifications in an hour"
        " (notifications.max_per_user_per_h), and more waited than can be sent in time"
    )
    return Refused("too_many_notifications", message, "notify", status=429)


def _parcels(connection: Connection, events: Sequence[int]) -> Iterator[Parcel]:
    for row in connection.execute(_EVENTS, {"events": events}).all():  # what follows changes one of the tables
        is_task = row.array_job is not None
        event = _event(row)
        if not is_wanted(event, row.wanted, is_task=is_task, is_array=row.is_array):
            continue
        is_of_whole = is_task and not row.wanted & Wanted.TASKS
        if is_of_whole and not connection.execute(_BEGUN, {"array": row.array_job}).rowcount:
            continue
        content = _content(row, event, is_of_whole=is_of_whole)
        targets = msgspec.json.decode(row.notify, type=Notify).to or [f"{MAIL}:{row.user}"]
        for place, target in enumerate(dict.fromkeys(targets)):
            yield Parcel(event_id=row.id, place=place, job=content.job, user=row.user, target=target, content=content)


def _event(row: Any) -> str:  # noqa: ANN401 - a database row
    """The event as a user sees it: an array of which tasks were cancelled, and none failed, was cancelled."""
    is_failed = row.is_array and row.event == "fail" and not row.n_failed
    return "cancel" if is_failed else str(row.event)


def _content(row: Any, event: str, *, is_of_whole: bool) -> Content:  # noqa: ANN401 - a database row
    has_ended = row.event not in ("start", "requeue", "idle")
    return Content(
        id=row.id,
        event=event,
        job=row.array_job if is_of_whole else row.job,
        state=row.state,
        at=row.at,
        user=row.user,
        name=row.name,
        queue=row.queue,
        cause=row.cause,
        array_job=None if is_of_whole else row.array_job,
        array_task=None if is_of_whole else row.array_task,
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at if has_ended else None,
        exit_status=row.exit_status if has_ended else None,
        signal=row.signal if has_ended else None,
        nodelist=None if is_of_whole or row.event == "requeue" else row.nodelist,
    )


def _row(parcel: Parcel, settings: NotificationSettings, slot: float, now: float) -> dict[str, Any]:
    return {
        "event_id": parcel.event_id,
        "place": parcel.place,
        "job_id": parcel.job,
        "user": parcel.user,
        "lane": lane_of(parcel.target, parcel.user, settings.mail_domain),
        "target": parcel.target,
        "body": msgspec.json.encode(parcel.content).decode(),
        "state": _WAITING,
        "attempts": 0,
        "first_at": now,
        "next_at": send_at(slot, now),
        "slot_at": slot,
        "problem": None,
    }


def lane_of(target: str, user: str, domain: str | None) -> str:
    """What shares a receiver: all mails have one server; other receivers are apart for each user.

    >>> lane_of("mailto:alice", "alice", "example.org"), lane_of("https://example.org/a", "alice", None)
    ('mailto', 'alice https://example.org:443')
    """
    try:
        lane = parse_target(with_domain(target, domain)).lane
    except BadTarget:
        lane = NO_LANE
    return lane if lane == MAIL else f"{user} {lane}"


def finish(connection: Connection, outcomes: Sequence[Outcome], now: float) -> None:
    """Record what attempts have led to. A notification that failed for good becomes a dead letter of its user."""
    if not outcomes:
        return
    rows = [
        {
            "of": one.due.id,
            "new_state": _DONE if one.again_at is None else _WAITING,
            "again_at": now if one.again_at is None else one.again_at,
            "why": None if one.error is None else one.error.message,
        }
        for one in outcomes
    ]
    connection.execute(_AFTER, rows)
    failed = [one for one in outcomes if one.error is not None and one.again_at is None]
    keep(connection, [_letter(one.due.parcel, one.due.first_at, now, one.error) for one in failed if one.error])


def _letter(parcel: Parcel, first_at: float, now: float, error: RankdError) -> Undelivered:
    """``first_at`` is part of the source: a notification that was retried may fail again."""
    return Undelivered(
        source=f"notification-{parcel.event_id}/{parcel.place}@{first_at:.3f}",
        user=parcel.user,
        at=now,
        message_id=None,
        payload=msgspec.json.encode(parcel),
        code=error.code,
        message=error.message,
        field=error.field,
        kind=NOTIFICATION,
    )


def send_again(connection: Connection, payload: bytes, settings: NotificationSettings, now: float) -> int:
    """Send the notification of a dead letter again, with its whole time before it. Returns its job.

    Raises:
        Refused: ``bad_dead_letter``: another version of rankd has written it.
    """
    try:
        parcel = msgspec.json.decode(payload, type=Parcel)
    except msgspec.DecodeError as error:
        raise Refused("bad_dead_letter", f"this notification can't be read: {error}; drop it", "ids") from None
    slot = next_slot(_last_slot(connection, parcel.user, {}), now, settings.max_per_user_per_h)
    upsert(connection, notifications, ["event_id", "place"], [_row(parcel, settings, slot, now)])
    return parcel.job


def prune_done(connection: Connection, now: float) -> bool:
    """Delete some of those that are done, and old enough. Returns whether there may be more."""
    return connection.execute(_PRUNED, {"before": now - HOUR_S}).rowcount == PART


def move_noted(connection: Connection, event: int) -> None:
    """Record that all events up to this one were looked at."""
    upsert(connection, relay_marks, ["name"], [{"name": MARK, "event_id": event}])
