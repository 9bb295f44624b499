"""What tells a reader whether anything is new: the last generation, and the last event of jobs, nodes and queues.

SQL is text: each is the end of an index, 0.1 ms together for a million jobs.
"""

from __future__ import annotations

from typing import NamedTuple

from rankd.store.engine.reading import Reader, fetch

_SQL = """SELECT (SELECT max(number) FROM generations) AS generation, (SELECT max(id) FROM job_events) AS event,
    (SELECT max(id) FROM node_events) AS node, (SELECT max(id) FROM queue_events) AS queue,
    (SELECT max(id) FROM configurations) AS configuration"""


class Newest(NamedTuple):
    """0 where there is none yet."""

    generation: int
    event: int
    node: int
    queue: int
    configuration: int


def newest(connection: Reader) -> Newest:
    """The numbers of the newest of each."""
    [row] = fetch(connection, _SQL)
    return Newest(*(row[name] or 0 for name in Newest._fields))
