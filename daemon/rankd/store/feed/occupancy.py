"""Open allocations, as the scheduler follows them: which ones are open, and their nodes, resources and owners.

Every cycle reads which allocations are open. So that statement is text, and its rows stay the driver's plain pairs:
making 100,000 NamedTuples would take 29 ms more each time. The details of new allocations are read with SQLAlchemy
Core: 100 of them take 0.49 ms, as text 0.48 ms.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import chain
from typing import NamedTuple

from sqlalchemy import select

from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.record.allocation_device import HeldDevice, devices_of
from rankd.store.schema.table import allocations, jobs, queues

_OPEN = "SELECT id, coalesce(started_at, allocated_at) FROM allocations WHERE ended_at IS NULL"

_OF = jobs.c
_DETAILS = (
    select(
        allocations.c.id,
        allocations.c.nodes,
        allocations.c.resources,
        _OF.exclusive,
        _OF.queue_id,
        _OF.application_id,
        _OF.time_limit_s,
        _OF.user,
        _OF.groups,
        queues.c.partition,
        _OF.array_job,
        allocations.c.devices.is_not(None),
    )
    .join_from(allocations, jobs, _OF.id == allocations.c.job_id)
    .join(queues, queues.c.id == _OF.queue_id)
    .where(allocations.c.id.in_(values_of("ids")))
)

Since = tuple[int, float]
"""An open allocation: its id and its start (UTC seconds); if it has not started, the time of its allocation."""


class OpenAllocation(NamedTuple):
    """An allocation that has not ended. ``resources`` are per node; ``time_limit_s`` is None if the job has none.

    ``application`` is ``NO_GROUP`` if the job has none. ``array``: of a task, its array.
    """

    id: int
    nodes: list[str]
    resources: Resources
    exclusive: bool
    queue: int
    application: int
    time_limit_s: float | None
    user: str
    groups: tuple[str, ...]
    partition: str
    array: int | None = None
    devices: tuple[HeldDevice, ...] = ()


def open_since(connection: Connection) -> list[Since]:
    """All open allocations, in no particular order."""
    return list(chain.from_iterable(stream(connection, _OPEN)))


def read_open(connection: Connection, ids: Collection[int]) -> Iterator[OpenAllocation]:
    """The details of these open allocations."""
    rows = connection.execute(_DETAILS, {"ids": ids}).all() if ids else []
    held = devices_of(connection, [row[0] for row in rows if row[-1]])
    for id_, nodes, resources, exclusive, queue, application, limit, user, groups, partition, array, _ in rows:
        yield OpenAllocation(
            id=id_,
            nodes=json.loads(nodes),
            resources=json.loads(resources),
            exclusive=exclusive,
            queue=queue,
            application=NO_GROUP if application is None else application,
            time_limit_s=limit,
            user=user,
            groups=tuple(json.loads(groups)) if groups else (),
            partition=partition,
            array=array,
            devices=tuple(held.get(id_, ())),
        )
