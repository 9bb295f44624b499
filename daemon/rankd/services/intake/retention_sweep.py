"""The deletion of old records: once an hour, a few rows per transaction, so that others can write in between."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from rankd.core.errors import Unavailable
from rankd.core.model.service_setting import RetentionSettings
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.history import EVENT_TABLES, LEAST_AGE_S, Part, named, prune_events, prune_jobs

log = logging.getLogger("rankd.janitor")

SWEEP_EVERY_S = 3_600.0
PAUSE_S = 0.05
"""Seconds between two parts."""

Step = Callable[[Connection, int], Part]


async def sweep(
    database: Database,
    retention: RetentionSettings,
    now: float,
    *,
    role: str | None = None,
    beat: Callable[[], object] = lambda: None,
) -> dict[str, int]:
    """Delete records older than the settings allow; returns the number of deleted rows by kind. May stop anywhere.

    Raises:
        Unavailable: ``storage_failed``: there is no room to write. Finished parts stay deleted.
    """
    newest = now - LEAST_AGE_S
    jobs, events = min(now - retention.jobs_s, newest), min(now - retention.events_s, newest)
    kept = await database.read_in_thread(named)
    steps: dict[str, Step] = {"jobs": lambda connection, after: prune_jobs(connection, after, jobs, kept)}
    for table in EVENT_TABLES:
        steps[table] = partial(_events, table=table, before=events)
    gone: dict[str, int] = {}
    for name, step in steps.items():
        gone[name], after = 0, 0
        while True:
            part = await database.write(_from(step, after), role=role)
            gone[name] += part.gone
            beat()
            if part.last is None:
                break
            after = part.last
            await asyncio.sleep(PAUSE_S)
    return gone


def _from(step: Step, after: int) -> Callable[[Connection], Part]:
    return lambda connection: step(connection, after)


def _events(connection: Connection, after: int, *, table: str, before: float) -> Part:
    return prune_events(connection, table, after, before)


async def run_sweeps(
    database: Database, retention: Callable[[], RetentionSettings], role: str, beat: Callable[[], object], clock: Clock
) -> None:
    """Sweep once an hour, until cancelled. A sweep without room on the disk ends, and the next one tries again."""
    while True:
        try:
            gone = await sweep(database, retention(), clock(), role=role, beat=beat)
        except Unavailable as error:
            log.warning("old records stay for now: %s", error.message)
        else:
            if any(gone.values()):
                log.info("deleted old records: %s", ", ".join(f"{n} {kind}" for kind, n in gone.items() if n))
        due = time.monotonic() + SWEEP_EVERY_S
        while time.monotonic() < due:
            beat()
            await asyncio.sleep(1.0)
