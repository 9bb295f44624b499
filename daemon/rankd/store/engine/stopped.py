"""Keeping services away from an SQLite file, by the locks that they would take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection

from rankd.store.engine.lock import acquire_or_fail

ROLES = ("intake", "prioritizer", "scheduler", "notifier", "forecaster")


def may_idle(connection: Connection) -> None:
    """Let this transaction of PostgreSQL be idle for longer than a service's may be."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout TO 0")


def server_now(connection: Connection) -> float:
    """The time by PostgreSQL's clock, UTC seconds."""
    now = connection.exec_driver_sql("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
    return float(now.scalar_one())


def count_rows(connection: Connection) -> None:
    """Let PostgreSQL look how large the tables are. Until it does so by itself, its plans are for empty ones."""
    connection.exec_driver_sql("ANALYZE")


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
