"""How the database carries out statements: the steps of the plan of each one that runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event


@contextmanager
def plans(connection: Connection) -> Iterator[list[tuple[str, list[str]]]]:
    """Collects (statement, steps) for the statements that SQLAlchemy runs on the connection within the block.

    The plan is that of the statement with its parameters as parameters: SQLite does not look into them.
    """
    found: list[tuple[str, list[str]]] = []

    def note(connection, _cursor, statement, parameters, _context, is_many):
        words, column = ("EXPLAIN QUERY PLAN", 3) if connection.dialect.name == "sqlite" else ("EXPLAIN", 0)
        cursor = connection.connection.cursor()
        cursor.execute(f"{words} {statement}", parameters[0] if is_many else parameters)
        found.append((statement, [row[column] for row in cursor.fetchall()]))
        cursor.close()

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(connection, "before_cursor_execute", note)


class plans_of_reader:  # noqa: N801 - reads like the function above
    """A reader that also collects (statement, steps) of each statement in ``found``."""

    def __init__(self, reader):
        self._reader = reader
        self.found = []

    def cursor(self):
        return _Noting(self._reader, self.found)


class _Noting:
    def __init__(self, reader, found):
        self._reader, self._cursor, self._found = reader, reader.cursor(), found

    def execute(self, sql, parameters=()):
        other = self._reader.cursor()
        other.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        self._found.append((sql, [row[3] for row in other.fetchall()]))
        other.close()
        self._cursor.execute(sql, parameters)

    def __getattr__(self, name):
        return getattr(self._cursor, name)
