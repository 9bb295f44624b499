"""Messages of streams that can't be decoded: counted, recorded in the database, and skipped."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rankd.bus.connection import Bus
from rankd.store.engine.database import Database
from rankd.store.record.unreadable import FIRST_BYTES, UnreadableMessage, keep_unreadable
from rankd.wire.subject import STREAM_EVENTS

log = logging.getLogger("rankd.intake")

LONGEST_REASON = 500


def unreadable(subject: str, sequence: int, data: bytes, error: Exception, now: float) -> UnreadableMessage:
    """The record of an unreadable message of the stream of events: its first bytes, and why it can't be decoded."""
    return UnreadableMessage(
        at=now,
        stream=STREAM_EVENTS,
        subject=subject,
        sequence=sequence,
        n_bytes=len(data),
        head=data[:FIRST_BYTES],
        reason=f"{error}"[:LONGEST_REASON],
    )


async def keep_aside(database: Database, bus: Bus, role: str, messages: Sequence[UnreadableMessage]) -> None:
    """Count and record unreadable messages. All of one stream share one line of the log.

    Raises:
        Unavailable: ``storage_failed``: nothing was recorded or counted.
    """
    if not messages:
        return
    await database.write(lambda connection: keep_unreadable(connection, messages), role=role)
    by_stream: dict[str, list[UnreadableMessage]] = {}
    for message in messages:
        by_stream.setdefault(message.stream, []).append(message)
    for stream, found in by_stream.items():
        bus.unreadable[stream] += len(found)
        first = found[0]
        log.warning(
            "%d messages of the stream %s can't be read and are skipped; the first: %s, sequence %d: %s",
            *(len(found), stream, first.subject, first.sequence, first.reason),
        )
