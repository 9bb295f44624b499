"""Dead letters: submissions on the enqueue subject that could not be accepted, until somebody retries or drops them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.errors import RankdError
from rankd.store.look import Reader, Row, fetch
from rankd.wire.message import DeadLetter, DeadLetterFilter

_INSERT = (
    'INSERT INTO dead_letters (source, "user", at, message_id, payload, code, message, field)'
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source) DO NOTHING"
)
_UNPUBLISHED = (
    'SELECT id, "user", at, message_id, code, message, field, payload FROM dead_letters'
    " WHERE published = 0 ORDER BY id LIMIT ?"
)


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that is no job. ``source`` names the message, and the place in it: the same is kept once."""

    source: str
    user: str
    at: float
    message_id: str | None
    payload: bytes
    code: str
    message: str
    field: str | None = None


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """What a retry needs of a dead letter."""

    id: int
    source: str
    user: str
    message_id: str | None
    payload: bytes
    state: str

    @property
    def key(self) -> str:
        """The key that its job would have had, and has if it is retried."""
        source, slash, place = self.source.partition("/")
        return key_of(self.message_id, source) + slash + place


def key_of(message_id: str | None, source: str) -> str:
    """The key of an enqueued message's job without one of its own: the sender's message id, or the message itself."""
    return message_id or f"enqueued-{source}"


def keep(connection: Connection, letters: Sequence[Undelivered]) -> None:
    """Record what could not be accepted."""
    if letters:
        rows = [(e.source, e.user, e.at, e.message_id, e.payload, e.code, e.message, e.field) for e in letters]
        connection.exec_driver_sql(_INSERT, rows)


def stored(connection: Connection, ids: Sequence[int]) -> dict[int, StoredLetter]:
    """These letters by id; unknown ids are left out."""
    rows = connection.exec_driver_sql(
        'SELECT d.id, d.source, d."user", d.message_id, d.payload, d.state'
        " FROM json_each(?) w JOIN dead_letters d ON d.id = w.value",
        (json.dumps(list(ids)),),
    )
    return {
        id_: StoredLetter(id=id_, source=source, user=user, message_id=message_id, payload=bytes(payload), state=state)
        for id_, source, user, message_id, payload, state in rows
    }


def settle(connection: Connection, letter: int, state: str, by: str, now: float, jobs: Sequence[int] = ()) -> None:
    """A letter was ``retried``, which made ``jobs``, or ``dropped``."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET state = ?, decided_by = ?, decided_at = ?, jobs = ? WHERE id = ?",
        (state, by, now, json.dumps(list(jobs)) if jobs else None, letter),
    )


def still_dead(connection: Connection, letter: int, error: RankdError) -> None:
    """A retry failed: this is the reason now."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET code = ?, message = ?, field = ? WHERE id = ?",
        (error.code, error.message, error.field, letter),
    )


def letters(connection: Reader, wanted: DeadLetterFilter) -> list[Row]:
    """Rows of the view ``dead_letter``, oldest first."""
    conditions, parameters = ["1"], list[object]()
    if wanted.ids is not None:
        conditions.append("id IN (SELECT value FROM json_each(?))")
        parameters.append(json.dumps(wanted.ids))
    elif not wanted.all:
        conditions.append("state = 'waiting'")
    if wanted.users is not None:
        conditions.append('"user" IN (SELECT value FROM json_each(?))')
        parameters.append(json.dumps(wanted.users))
    query = f"SELECT * FROM dead_letter WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    return fetch(connection, query, [*parameters, wanted.limit])


def unpublished(connection: Connection, most: int) -> list[DeadLetter]:
    """The oldest that nobody was told of."""
    rows = connection.exec_driver_sql(_UNPUBLISHED, (most,))
    return [
        DeadLetter(
            id=id_,
            user=user,
            at=at,
            message_id=message_id,
            code=code,
            message=message,
            field=field,
            submission=bytes(payload).decode(errors="replace"),
        )
        for id_, user, at, message_id, code, message, field, payload in rows
    ]


def mark_published(connection: Connection, letters: Sequence[DeadLetter]) -> None:
    """Everybody who listens was told."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET published = 1 WHERE id = ?", [(letter.id,) for letter in letters]
    )
