"""A factor's formula in SQL, evaluated in an empty database in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from rankd.store.engine.driver import sqlite3


def formula_values(formula: str, rows: Sequence[Mapping[str, float | None]]) -> Iterator[object]:
    """Yield the value of ``formula`` for each row, with ``{name}`` in it replaced by the row's value of that name.

    Raises:
        KeyError: the formula names a value that a row does not have.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        for values in rows:
            statement = f"SELECT {formula.format_map({name: f':{name}' for name in values})}"
            yield connection.execute(statement, values).fetchone()[0]
