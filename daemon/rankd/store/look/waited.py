"""What the jobs of a user waited for, in parts that add up to their waiting times.

SQL is text: it reads the newest jobs of one user by the index of users.
"""

from __future__ import annotations

from rankd.core.model.wait_part import COLUMNS, WaitCause
from rankd.store.engine.reading import Reader, fetch

NEWEST = 500
_SQL = f"""SELECT {", ".join(COLUMNS.values())} FROM jobs
    WHERE "user" = ? AND waited_s IS NOT NULL ORDER BY id DESC LIMIT ?"""


def waited_of(connection: Reader, user: str) -> tuple[int, dict[WaitCause, float]]:
    """The number of the user's newest jobs that have started or ended, at most :data:`NEWEST`; seconds by cause."""
    rows = fetch(connection, _SQL, [user, NEWEST])
    return len(rows), {cause: sum(row[name] or 0.0 for row in rows) for cause, name in COLUMNS.items()}
