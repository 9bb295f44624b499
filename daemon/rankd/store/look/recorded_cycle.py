"""What a cycle of the scheduler started, as recorded.

SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

import json

from rankd.core.evaluate.replay import Recorded
from rankd.store.engine.reading import Reader, fetch

_STARTED = """
SELECT coalesce(j.array_job, l.job_id) AS job, j.array_task AS task, l.nodes AS names
FROM allocations l JOIN jobs j ON j.id = l.job_id WHERE l.cycle = ? AND l.generation = ? ORDER BY l.id"""


def started_in(connection: Reader, cycle: int, generation: int) -> list[Recorded]:
    """The jobs that a cycle started, in the order of its decisions."""
    rows = fetch(connection, _STARTED, [cycle, generation])
    return [Recorded(job=row["job"], task=row["task"], nodes=json.loads(row["names"])) for row in rows]
