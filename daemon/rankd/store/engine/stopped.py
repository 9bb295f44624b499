"""Keeping services away from an SQLite file, by the locks that they would take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from rankd.store.engine.lock import acquire_or_fail

ROLES = ("intake", "prioritizer", "scheduler", "notifier", "forecaster")


@asynccontextmanager
async def kept_stopped(path: Path) -> AsyncIterator[None]:
    """Hold the locks of all roles of a file.

    Raises:
        Unavailable: ``already_running``: a service runs.
    """
    with ExitStack() as held:
        for role in ROLES:
            lock = await acquire_or_fail(path.with_name(f"{path.name}.{role}.lock"), role)
            held.callback(lock.close)
        yield
