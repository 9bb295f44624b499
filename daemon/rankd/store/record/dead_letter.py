"""Dead letters: enqueued submissions that could not be accepted, and notifications that could not be sent.

They wait until a user retries or drops them.

A letter keeps its original bytes, up to the limits of ``core/change/dead_letter.py``. A larger one keeps only its
beginning and can't be retried. Lists and messages show a preview of a letter's first :data:`PREVIEW_BYTES`, as text.
Each user keeps only the newest waiting letters, within the limits.

Uses SQLAlchemy Core, although a flood of bad submissions writes here: storing 250 letters takes 2.8 ms, as text 1.8 ms.
Marking them as published takes 0.15 ms; as text, one by one, 0.27 ms.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import ColumnElement, Select, case, delete, exists, func, insert, literal_column, not_, select, update

from rankd.core.change import dead_letter as limits
from rankd.core.model.secret import is_secret
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import most
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import dead_letter_losses, dead_letters
from rankd.wire.message import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.core.errors import RankdError

SUBMISSION, NOTIFICATION = "submission", "notification"
"""What a letter was: its column ``kind``."""
PREVIEW_BYTES = 16 * 2**10
LONGEST_TEXT = 1_000
"""The most characters of the message, of the field and of the sender's message id."""

_OF = dead_letters.c
_IDS = _OF.id.in_(values_of("ids"))
_IS_WAITING = _OF.state == literal_column("'waiting'")
_IS_UNPUBLISHED = not_(_OF.published)
"""Both with the values in the text, as in the partial indexes. With parameters, SQLite does not use the indexes."""
_SIZE = case((_OF.bytes < limits.LARGEST_KEPT, _OF.bytes), else_=limits.LARGEST_KEPT)
_HELD = select(func.count(), func.coalesce(func.sum(_SIZE), 0)).where(_IS_WAITING)
_NEWEST_FIRST = select(_OF.id, _OF.bytes).where(_IS_WAITING).order_by(_OF.id.desc())
_UNPUBLISHED = (
    select(_OF.id, _OF.user, _OF.at, _OF.message_id, _OF.code, _OF.message, _OF.field, _OF.bytes, _OF.preview, _OF.kind)
    .where(_IS_UNPUBLISHED)
    .order_by(_OF.id)
)


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that did not become a job. ``source`` identifies the message and the place in it; kept once."""

    source: str
    user: str
    at: float
    message_id: str | None
    payload: bytes
    code: str
    message: str
    field: str | None = None
    kind: str = SUBMISSION


class StoredLetter(limits.LetterHead, frozen=True, kw_only=True):
    """A dead letter with everything that a retry needs."""

    kind: str
    source: str
    message_id: str | None
    payload: bytes
    n_bytes: int

    @property
    def key(self) -> str:
        """The key that its job would have had, and gets if the letter is retried."""
        source, slash, place = self.source.partition("/")
        return key_of(self.message_id, source) + slash + place


def key_of(message_id: str | None, source: str) -> str:
    """The key of an enqueued message's job that has no own key: the sender's message id, else the message's source."""
    return message_id or f"enqueued-{source}"


def keep(connection: Connection, letters: Sequence[Undelivered]) -> None:
    """Record refused submissions. If a user has too many letters, the oldest are deleted and counted."""
    if letters:
        rows = [_row(letter) for letter in letters]
        upsert(connection, dead_letters, ["source"], rows, kept=rows[0])
        for user in {letter.user for letter in letters}:
            _make_room(connection, user, letters[-1].at)


def _row(letter: Undelivered) -> dict[str, object]:
    size = len(letter.payload)
    payload, shown = _stored(letter.payload)
    return {
        "source": letter.source,
        "user": letter.user,
        "at": letter.at,
        "message_id": _cut(letter.message_id),
        "payload": payload,
        "code": letter.code,
        "message": _cut(letter.message),
        "field": _cut(letter.field),
        "bytes": len(payload) if size <= limits.LARGEST_KEPT else size,
        "preview": shown,
        "kind": letter.kind,
    }


def _stored(payload: bytes) -> tuple[bytes, str]:
    """The bytes of a submission to keep, without secrets, and the text to show, without the environment."""
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
    """The jobs of a submission with an environment: the single job, or those of a batch."""
    if not isinstance(document, dict):
        return []
    batch = document.get("jobs")
    jobs = [document, *(batch if isinstance(batch, list) else [])]
    return [job for job in jobs if isinstance(job, dict) and isinstance(job.get("env"), dict)]


def _cut(text: str | None) -> str | None:
    """At most :data:`LONGEST_TEXT` characters. Bytes of a header that were not UTF-8 are replaced."""
    return None if text is None else text[:LONGEST_TEXT].encode(errors="replace").decode()


def preview(payload: bytes) -> str:
    """The beginning as text. Bytes that are not UTF-8 become U+FFFD."""
    return payload[:PREVIEW_BYTES].decode(errors="replace").replace("\0", "\ufffd")


def _make_room(connection: Connection, user: str, now: float) -> None:
    """Delete a user's oldest waiting letters beyond the limits. The newest one always stays."""
    count, total = connection.execute(_HELD.where(_OF.user == user)).one()
    if count <= limits.MOST_LETTERS and total <= limits.MOST_BYTES:
        return
    rows = connection.execute(_NEWEST_FIRST.where(_OF.user == user))
    gone = limits.letters_beyond_limits((id_, size) for id_, size in rows)
    connection.execute(delete(dead_letters).where(_IDS), {"ids": [id_ for id_, _ in gone]})
    if gone:
        _count_lost(connection, user, len(gone), sum(size for _, size in gone), now)


def _count_lost(connection: Connection, user: str, n_letters: int, n_bytes: int, now: float) -> None:
    lost = dead_letter_losses.c
    more = {"letters": lost.letters + n_letters, "bytes": lost.bytes + n_bytes, "at": now}
    if not connection.execute(update(dead_letter_losses).where(lost.user == user).values(more)).rowcount:
        first = {"user": user, "letters": n_letters, "bytes": n_bytes, "at": now}
        connection.execute(insert(dead_letter_losses).values(first))


def stored(connection: Connection, ids: Sequence[int]) -> dict[int, StoredLetter]:
    """These letters by id; unknown ids are left out."""
    query = select(_OF.id, _OF.source, _OF.user, _OF.message_id, _OF.payload, _OF.bytes, _OF.state, _OF.kind)
    query = query.where(_IDS)
    return {
        row.id: StoredLetter(
            id=row.id,
            kind=row.kind,
            source=row.source,
            user=row.user,
            message_id=row.message_id,
            payload=row.payload,
            n_bytes=row.bytes,
            state=row.state,
        )
        for row in connection.execute(query, {"ids": ids})
    }


def settle(connection: Connection, letter: int, state: str, by: str, now: float, jobs: Sequence[int] = ()) -> None:
    """Record that a letter was ``retried``, with the ``jobs`` it became. Its preview stays; its bytes are deleted."""
    values = {"state": state, "decided_by": by, "decided_at": now, "payload": b""}
    made = json.dumps(list(jobs)) if jobs else None
    connection.execute(update(dead_letters).where(_OF.id == letter).values(jobs=made, **values))


def heads(connection: Connection, ids: Sequence[int]) -> dict[int, limits.LetterHead]:
    """The heads of these letters by id; unknown ids are left out."""
    rows = connection.execute(select(_OF.id, _OF.user, _OF.state).where(_IDS), {"ids": ids})
    return {id_: limits.LetterHead(id=id_, user=user, state=state) for id_, user, state in rows}


def drop_letters(connection: Connection, letters: Sequence[int], by: str, now: float) -> None:
    """Record that these letters were dropped. Their previews stay; their bytes are deleted."""
    values = {"state": "dropped", "decided_by": by, "decided_at": now, "payload": b""}
    connection.execute(update(dead_letters).where(_IDS).values(values), {"ids": letters})


def still_dead(connection: Connection, letter: int, error: RankdError) -> None:
    """Record why a retry failed."""
    why = {"code": error.code, "message": _cut(error.message), "field": _cut(error.field)}
    connection.execute(update(dead_letters).where(_OF.id == letter).values(why))


def has_unpublished() -> ColumnElement[bool]:
    """Whether any letter is not published yet, as part of a query."""
    return exists().where(_IS_UNPUBLISHED)


@cache
def _oldest_unpublished(number: int) -> Select[Any]:
    return _UNPUBLISHED.limit(most(number))


def unpublished(connection: Connection, number: int) -> list[DeadLetter]:
    """The oldest letters that are not published yet, at most this number."""
    rows = connection.execute(_oldest_unpublished(number))
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
            kind=kind,
        )
        for id_, user, at, message_id, code, message, field, n_bytes, shown, kind in rows
    ]


def mark_published(connection: Connection, letters: Sequence[DeadLetter]) -> None:
    """Record that these letters are published."""
    published = update(dead_letters).where(_IDS).values(published=True)
    connection.execute(published, {"ids": [letter.id for letter in letters]})


def publish_again(connection: Connection) -> int:
    """Let the waiting letters be published again. Returns how many they are."""
    waiting = update(dead_letters).where(_IS_WAITING, _OF.published)
    return connection.execute(waiting.values(published=False)).rowcount
