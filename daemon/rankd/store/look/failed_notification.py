"""The notifications of a job that did not arrive: those that are sent again, and those that were given up.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.store.engine.reading import fetch

if TYPE_CHECKING:
    from rankd.store.engine.reading import Reader, Row

MOST_FAILED = 100
"""The most of each kind."""

_RETRIED = """SELECT target, body, attempts, next_at, problem FROM notifications
    WHERE job_id = ? AND state = 'waiting' AND attempts > 0 ORDER BY id LIMIT ?"""
_GIVEN_UP = """SELECT id, message, preview FROM dead_letters
    WHERE "user" = ? AND state = 'waiting' AND kind = 'notification' AND preview LIKE ? ORDER BY id LIMIT ?"""
"""The pattern has the beginning of a stored parcel. It only spares reading most others."""


def failed_notifications(connection: Reader, job: int, user: str) -> list[Row]:
    """Those of this job of this user, as the wire's ``FailedNotification``: those that are sent again, then the others.

    They are not made as that struct: importing the wire's records takes a command 10 ms.
    """
    retried = [_retried(row) for row in fetch(connection, _RETRIED, [job, MOST_FAILED])]
    letters = fetch(connection, _GIVEN_UP, [user, f'%"job":{job},%', MOST_FAILED])
    return [*retried, *(given_up for row in letters if (given_up := _given_up(row, job)) is not None)]


def _retried(row: Row) -> Row:
    event = msgspec.json.decode(row["body"], type=dict).get("event")
    return {
        "event": event,
        "target": row["target"],
        "problem": row["problem"],
        "attempts": row["attempts"],
        "again_at": row["next_at"],
        "dead_letter": None,
    }


def _given_up(row: Row, job: int) -> Row | None:
    """None for a letter about another job, and for one whose beginning can't be read alone."""
    try:
        parcel = msgspec.json.decode(row["preview"], type=dict)
    except msgspec.DecodeError:
        return None
    if parcel.get("job") != job:
        return None
    return {
        "event": parcel.get("content", {}).get("event"),
        "target": parcel.get("target"),
        "problem": row["message"],
        "attempts": None,
        "again_at": None,
        "dead_letter": row["id"],
    }
