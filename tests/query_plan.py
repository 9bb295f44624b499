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
        cursor = connection.connection.cursor()
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters[0] if is_many else parameters)
        found.append((statement, [row[3] for row in cursor.fetchall()]))
        cursor.close()

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(connection, "before_cursor_execute", note)
