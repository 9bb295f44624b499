"""Prepared statements of a connection to PostgreSQL: to plan most of rankd's statements takes longer than to run them.

They belong to a session of the server. A pooler in transaction mode gives each transaction another session, so behind
a pooler nothing is prepared. The key for cancelling, which each client gets, tells them apart: a server puts the number
of its process in it, and a pooler makes keys of its own.

The server plans a statement once and for all, also if its tables are small at that time. So plans are forgotten after
some seconds.
"""

from __future__ import annotations

import time
from typing import Any
from weakref import WeakKeyDictionary

import psycopg

THRESHOLD = 2
"""A statement is prepared when it runs for the third time."""
MOST = 300
"""Prepared statements of a connection."""
REPLAN_EVERY_S = 5.0
FORGET_PLANS = "DISCARD PLANS"
_UNPREPARED = "SELECT *"
"""A statement that begins so is never prepared: its columns may become other ones."""

_planned_at: WeakKeyDictionary[psycopg.Connection[Any], float] = WeakKeyDictionary()


def may_prepare(statement: str) -> bool:
    """Whether it is one statement whose result always has the same columns."""
    return not statement.startswith(_UNPREPARED) and ";" not in statement


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Let a new connection to the server's own process prepare its statements."""
    connection.prepare_threshold, connection.prepared_max = THRESHOLD, MOST


def is_direct(connection: psycopg.Connection[Any]) -> bool:
    """Whether the connection is one to the server's own process."""
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is not None and row[0] == connection.pgconn.backend_pid


def is_replan_due(connection: psycopg.Connection[Any]) -> bool:
    """Whether the connection's plans are old. If so, the caller runs :data:`FORGET_PLANS`."""
    if connection.prepare_threshold is None:
        return False
    now = time.monotonic()
    if now - _planned_at.setdefault(connection, now) < REPLAN_EVERY_S:
        return False
    _planned_at[connection] = now
    return True


def is_outdated(error: BaseException | None) -> bool:
    """Whether a statement failed because it was prepared for other columns.

    Its transaction is rolled back, and psycopg forgets the connection's statements then. So it may be repeated.
    """
    return isinstance(error, psycopg.errors.FeatureNotSupported) and "cached plan" in str(error)
