"""Dead letters: submissions on the enqueue subject that could not be accepted, until somebody retries or drops them.

A letter keeps its bytes as they came, up to the limits of ``core/change/dead_letter.py``. A larger one keeps only its
beginning and can't be retried. Lists and messages show a preview of a letter's first :data:`PREVIEW_BYTES`, as text. Of
one user's waiting letters, only the newest stay, within the limits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from rankd.core.change import dead_letter as limits
from rankd.core.model.secret import is_secret
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.wire.message import DeadLetter, DeadLetterFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from rankd.core.errors import RankdError

PREVIEW_BYTES = 16 * 2**10
LONGEST_TEXT = 1_000
"""Characters of the message, of the field and of the sender's message id."""

_INSERT = (
    'INSERT INTO dead_letters (source, "user", at, message_id, payload, code, message, field, bytes, preview)'
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source) DO NOTHING"
)
_HELD = "SELECT count(*), coalesce(sum(min(bytes, ?)), 0) FROM dead_letters WHERE \"user\" = ? AND state = 'waiting'"
_NEWEST_FIRST = "SELECT id, bytes FROM dead_letters WHERE \"user\" = ? AND state = 'waiting' ORDER BY id DESC"
_LOST = (
    'INSERT INTO dead_letter_losses ("user", letters, bytes, at) VALUES (?, ?, ?, ?) ON CONFLICT ("user") DO UPDATE'
    " SET letters = letters + excluded.letters, bytes = bytes + excluded.bytes, at = excluded.at"
)
_UNPUBLISHED = (
    'SELECT id, "user", at, message_id, code, message, field, bytes, preview FROM dead_letters'
    " WHERE published = 0 ORDER BY id LIMIT ?"
)


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that did not become a job. ``source`` names the message and the place in it; each is kept once."""

    source: str
    user: str
    at: float
    message_id: str | None
    payload: bytes
    code: str
    message: str
    field: str | None = None


class StoredLetter(limits.LetterHead, frozen=True, kw_only=True):
    """A dead letter with all that a retry needs."""

    source: str
    message_id: str | None
    payload: bytes
    n_bytes: int

    @property
    def key(self) -> str:
        """The key that its job would have had, and has if it is retried."""
        source, slash, place = self.source.partition("/")
        return key_of(self.message_id, source) + slash + place


def key_of(message_id: str | None, source: str) -> str:
    """The key of an enqueued message's job without one of its own: the sender's message id, or the message itself."""
    return message_id or f"enqueued-{source}"


def keep(connection: Connection, letters: Sequence[Undelivered]) -> None:
    """Record submissions that were refused. The oldest letters of a user with too many are deleted, and counted."""
    if letters:
        connection.exec_driver_sql(_INSERT, [_row(letter) for letter in letters])
        for user in {letter.user for letter in letters}:
            _make_room(connection, user, letters[-1].at)


def _row(letter: Undelivered) -> tuple[object, ...]:
    size = len(letter.payload)
    payload, shown = _stored(letter.payload)
    return (
        letter.source,
        letter.user,
        letter.at,
        _cut(letter.message_id),
        payload,
        letter.code,
        _cut(letter.message),
        _cut(letter.field),
        len(payload) if size <= limits.LARGEST_KEPT else size,
        shown,
    )


def _stored(payload: bytes) -> tuple[bytes, str]:
    """The bytes of a submission to keep, without secrets, and the text to show, without any environment."""
    if len(payload) > limits.LARGEST_KEPT:
        return payload[:PREVIEW_BYTES], preview(payload)
    try:
        document = msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return payload, preview(payload)
    jobs = _jobs_with_environment(document)
    if not jobs:
        return payload, preview(payload)
    for job in jobs:
        job["env"] = {name: value for name, value in job["env"].items() if not is_secret(name, str(value))}
    kept = msgspec.json.encode(document)
    for job in jobs:
        del job["env"]
    return kept, preview(msgspec.json.encode(document))


def _jobs_with_environment(document: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON
    """Of a submission: the job, or the jobs of a batch."""
    if not isinstance(document, dict):
        return []
    batch = document.get("jobs")
    jobs = [document, *(batch if isinstance(batch, list) else [])]
    return [job for job in jobs if isinstance(job, dict) and isinstance(job.get("env"), dict)]


def _cut(text: str | None) -> str | None:
    """At most :data:`LONGEST_TEXT` characters; bytes of a header that were not UTF-8 are replaced."""
    return None if text is None else text[:LONGEST_TEXT].encode(errors="replace").decode()


def preview(payload: bytes) -> str:
    """The beginning as text; bytes that are not UTF-8 become U+FFFD."""
    return payload[:PREVIEW_BYTES].decode(errors="replace").replace("\0", "\ufffd")


def _make_room(connection: Connection, user: str, now: float) -> None:
    """Delete a user's oldest waiting letters beyond the limits; the newest one always stays."""
    count, total = connection.exec_driver_sql(_HELD, (limits.LARGEST_KEPT, user)).one()
    if count <= limits.MOST_LETTERS and total <= limits.MOST_BYTES:
        return
    rows = connection.exec_driver_sql(_NEWEST_FIRST, (user,))
    gone = limits.letters_beyond_limits((id_, size) for id_, size in rows)
    connection.exec_driver_sql(
        "DELETE FROM dead_letters WHERE id IN (SELECT value FROM json_each(?))", (json.dumps([id_ for id_, _ in gone]),)
    )
    if gone:
        connection.exec_driver_sql(_LOST, (user, len(gone), sum(size for _, size in gone), now))


def losses(connection: Reader, users: Sequence[str] | None) -> list[Row]:
    """How many letters of which users were deleted because they had too many; of these users, or of all."""
    where, parameters = ("", []) if users is None else (' WHERE "user" IN (SELECT value FROM json_each(?))', [users])
    query = f'SELECT "user", letters, bytes, at FROM dead_letter_losses{where} ORDER BY at DESC LIMIT 1000'
    return fetch(connection, query, [json.dumps(list(value)) for value in parameters])


def stored(connection: Connection, ids: Sequence[int]) -> dict[int, StoredLetter]:
    """These letters by id; unknown ids are left out."""
    rows = connection.exec_driver_sql(
        'SELECT d.id, d.source, d."user", d.message_id, d.payload, d.bytes, d.state'
        " FROM json_each(?) w JOIN dead_letters d ON d.id = w.value",
        (json.dumps(list(ids)),),
    )
    return {
        id_: StoredLetter(
            id=id_,
            source=source,
            user=user,
            message_id=message_id,
            payload=bytes(payload),
            n_bytes=n_bytes,
            state=state,
        )
        for id_, source, user, message_id, payload, n_bytes, state in rows
    }


def settle(connection: Connection, letter: int, state: str, by: str, now: float, jobs: Sequence[int] = ()) -> None:
    """Record that a letter was ``retried``, with the ``jobs`` it became. Its preview stays, its bytes are deleted."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET state = ?, decided_by = ?, decided_at = ?, jobs = ?, payload = x'' WHERE id = ?",
        (state, by, now, json.dumps(list(jobs)) if jobs else None, letter),
    )


def heads(connection: Connection, ids: Sequence[int]) -> dict[int, limits.LetterHead]:
    """The heads of these letters by id; unknown ids are left out."""
    rows = connection.exec_driver_sql(
        'SELECT id, "user", state FROM dead_letters WHERE id IN (SELECT value FROM json_each(?))',
        (json.dumps(list(ids)),),
    )
    return {id_: limits.LetterHead(id=id_, user=user, state=state) for id_, user, state in rows}


def drop_letters(connection: Connection, letters: Sequence[int], by: str, now: float) -> None:
    """Record that these letters were dropped. Their previews stay, their bytes are deleted."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET state = 'dropped', decided_by = ?, decided_at = ?, payload = x''"
        " WHERE id IN (SELECT value FROM json_each(?))",
        (by, now, json.dumps(list(letters))),
    )


def still_dead(connection: Connection, letter: int, error: RankdError) -> None:
    """Record why a retry failed."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET code = ?, message = ?, field = ? WHERE id = ?",
        (error.code, _cut(error.message), _cut(error.field), letter),
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
    if wanted.after is not None:
        conditions.append("id > ?")
        parameters.append(wanted.after)
    query = f"SELECT * FROM dead_letter WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    return fetch(connection, query, [*parameters, wanted.limit])


def unpublished(connection: Connection, most: int) -> list[DeadLetter]:
    """The oldest letters that are not published yet."""
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
            bytes=n_bytes,
            submission=shown,
        )
        for id_, user, at, message_id, code, message, field, n_bytes, shown in rows
    ]


def mark_published(connection: Connection, letters: Sequence[DeadLetter]) -> None:
    """Record that these letters are published."""
    connection.exec_driver_sql(
        "UPDATE dead_letters SET published = 1 WHERE id = ?", [(letter.id,) for letter in letters]
    )
