"""The connection that every function of the store takes. Services only pass it on, and run no statement on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Row
from sqlalchemy.exc import OperationalError, ProgrammingError

from rankd.core.errors import Unavailable

__all__ = ["Connection", "Row", "needs_tables", "ping"]


@contextmanager
def needs_tables() -> Iterator[None]:
    """For the first look at a database, which may have no tables yet.

    Raises:
        Unavailable: ``storage_failed``, with what to do, in place of the driver's error.
    """
    try:
        yield
    except (OperationalError, ProgrammingError) as error:  # SQLite and PostgreSQL without these tables
        message = f"the database can't be read; `rankd db upgrade` creates its tables: {error.orig}"
        raise Unavailable("storage_failed", message) from error


def ping(connection: Connection) -> None:
    """Check that the database answers; raises an error if not."""
    connection.exec_driver_sql("SELECT 1").all()
