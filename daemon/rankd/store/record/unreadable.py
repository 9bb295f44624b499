"""Bus messages that could not be decoded: their position, first bytes and reason. Their number is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, func, select

from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import unreadable_messages

FIRST_BYTES = 256
KEPT = 1_000
"""The number of messages that are kept, the newest ones."""

_NEWEST = select(func.max(unreadable_messages.c.id)).scalar_subquery()
_OLD = delete(unreadable_messages).where(unreadable_messages.c.id <= _NEWEST - KEPT)


class UnreadableMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a stream that could not be decoded. ``head``: at most :data:`FIRST_BYTES` of its ``n_bytes``."""

    at: float
    stream: str
    subject: str
    sequence: int
    n_bytes: int
    head: bytes
    reason: str


def keep_unreadable(connection: Connection, messages: Sequence[UnreadableMessage]) -> None:
    """Record messages; the same message of a stream only once. Only the newest :data:`KEPT` stay."""
    rows = [
        {
            "at": message.at,
            "stream": message.stream,
            "subject": message.subject,
            "sequence": message.sequence,
            "bytes": message.n_bytes,
            "first_bytes": message.head[:FIRST_BYTES],
            "reason": message.reason,
        }
        for message in messages[-KEPT:]
    ]
    upsert(connection, unreadable_messages, ["stream", "sequence"], rows, kept=unreadable_messages.c.keys())
    connection.execute(_OLD)
