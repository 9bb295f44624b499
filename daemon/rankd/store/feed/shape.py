"""The request of the jobs of one shape. The records store it with each job; services read it once per shape."""

from __future__ import annotations

import json
from typing import NamedTuple

from rankd.core.model.quantity import Resources
from rankd.store.engine.connection import Connection

_SHAPE = """
SELECT q.partition, j.nodes, j.min_nodes, j.vcore, j.resources, j.constraints, j.exclusive
FROM jobs j JOIN queues q ON q.id = j.queue_id WHERE j.id = ?"""


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
    partition, nodes, min_nodes, vcore, resources, constraints, exclusive = connection.exec_driver_sql(
        _SHAPE, (job,)
    ).one()
    return JobShape(partition, nodes, min_nodes, vcore, json.loads(resources), constraints, bool(exclusive))
