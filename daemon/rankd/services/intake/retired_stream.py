"""The streams of old versions, which sent allocations and reports through JetStream: emptied once, then deleted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from nats.js.errors import NotFoundError

from rankd.bus.connection import Bus
from rankd.core.errors import RoleLost, Unavailable
from rankd.core.model.report import Report
from rankd.services.runtime.clock import Clock
from rankd.store.engine.database import Database
from rankd.store.record.report import take_reports
from rankd.wire.message import ReportMessage
from rankd.wire.subject import node_of

log = logging.getLogger("rankd.intake")

REPORTS = "RANKD_REPORTS"
ALLOCATIONS = "RANKD_ALLOCATIONS"

Record = Callable[[Sequence[tuple[str, Report]]], Awaitable[None]]


def recorder(database: Database, role: str, max_requeues: int, clock: Clock) -> Record:
    """Records the reports of an older version's stream; a report that can't be recorded is dropped."""

    async def record(reports: Sequence[tuple[str, Report]]) -> None:
        try:
            await database.write(lambda c: take_reports(c, reports, max_requeues, clock()), role=role)
        except (RoleLost, Unavailable):
            raise
        except Exception:
            log.exception("reports can't be recorded and are dropped: %s", reports)

    return record


async def take_over(bus: Bus, record: Record) -> None:
    """Record the reports that wait in the retired stream, and delete both streams.

    Start orders that wait there are dropped: the records still have them, and they are made again.

    Raises:
        nats.errors.Error, OSError: the broker is away (:data:`~rankd.bus.connection.LOST`).
        Unavailable: the reports can't be stored now.
    """
    try:
        state = (await bus.jetstream.stream_info(REPORTS)).state
    except NotFoundError:
        state = None
    if state is not None:
        for sequence in range(state.first_seq, state.last_seq + 1):
            await record(await _read(bus, sequence))
        log.info("took %d reports over from the stream %s, and deleted it", state.messages, REPORTS)
    for stream in (REPORTS, ALLOCATIONS):
        try:
            await bus.jetstream.delete_stream(stream)
        except NotFoundError:
            continue


async def _read(bus: Bus, sequence: int) -> list[tuple[str, Report]]:
    try:
        message = await bus.jetstream.get_msg(REPORTS, sequence)
    except NotFoundError:
        return []
    try:
        node = node_of(message.subject or "")
        return [(node, report) for report in msgspec.json.decode(message.data or b"", type=ReportMessage).reports]
    except (ValueError, RecursionError, IndexError) as error:
        log.error("a report on %s can't be read and is dropped: %s", message.subject, error)  # noqa: TRY400
        return []
