"""Messages of the bus that could not be decoded: their place, first bytes and reason. Their number is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

FIRST_BYTES = 256
KEPT = 1_000
"""The newest messages; older ones are deleted."""

_INSERT = (
    "INSERT INTO unreadable_messages (at, stream, subject, sequence, bytes, first_bytes, reason)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, sequence) DO NOTHING"
)


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
    """Record them; the same message of a stream once. Only the newest :data:`KEPT` stay."""
    rows = [(m.at, m.stream, m.subject, m.sequence, m.n_bytes, m.head[:FIRST_BYTES], m.reason) for m in messages]
    connection.exec_driver_sql(_INSERT, rows[-KEPT:])
    connection.exec_driver_sql(
        "DELETE FROM unreadable_messages WHERE id <= (SELECT max(id) FROM unreadable_messages) - ?", (KEPT,)
    )
