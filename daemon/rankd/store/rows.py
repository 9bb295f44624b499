"""Many rows into a table by few statements.

The driver's ``executemany`` gives the interpreter's lock away for every row, and gets it back only once another
thread lets go of it: beside a busy event loop a row then takes 200 us, of which SQLite needs ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from sqlalchemy import Connection

AT_ONCE = (250, 50, 10, 1)
"""Rows per statement; few texts, which the driver keeps prepared."""


def insert_rows(connection: Connection, into: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows one after the other. ``into`` is the statement up to its values: ``INSERT INTO t (a, b)``."""
    first = 0
    for size in AT_ONCE:
        while len(rows) - first >= size:
            statement = _statement(into, len(rows[first]), size)
            values = tuple(chain.from_iterable(rows[first : first + size]))
            connection.exec_driver_sql(statement, values)
            first += size


@lru_cache(maxsize=128)
def _statement(into: str, n_columns: int, n_rows: int) -> str:
    row = ", ".join("?" * n_columns)
    return f"{into} VALUES {', '.join([f'({row})'] * n_rows)}"
