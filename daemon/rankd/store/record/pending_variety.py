"""How different pending jobs are: their shapes, constraints and applications, as numbers of this process.

Reading the variety of a user with 100,000 pending jobs is one range of an index, and a look at each job.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, select

from rankd.core.model.job import State
from rankd.store.engine.connection import Connection
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import applications, jobs, queues

_IS_PENDING = jobs.c.state == State.PENDING.value
_OF_USER = (
    select(jobs.c.shape, jobs.c.constraints, queues.c.path, applications.c.name)
    .join_from(jobs, queues, queues.c.id == jobs.c.queue_id)
    .outerjoin(applications, applications.c.id == jobs.c.application_id)
    .where(jobs.c.user == bindparam("user"), _IS_PENDING)
    .distinct()
)
_OF_ALL = select(jobs.c.shape).where(IS_ACTIVE, _IS_PENDING).distinct()


class Variety(NamedTuple):
    """The keys of pending jobs. Texts are hashed, so the numbers are of this process only."""

    shapes: set[int]
    constraints: set[int]
    applications: set[int]


def variety_of_user(connection: Connection, user: str) -> Variety:
    """What the pending jobs of a user have. Applications of two queues are two, even with one name."""
    found = Variety(set(), set(), set())
    for shape, constraints, queue, application in connection.execute(_OF_USER, {"user": user}):
        found.shapes.add(shape)
        if constraints:
            found.constraints.add(hash(constraints))
        if application:
            found.applications.add(hash((queue, application)))
    return found


def shapes_of_all(connection: Connection) -> Variety:
    """The shapes of all pending jobs."""
    return Variety(set(connection.execute(_OF_ALL).scalars()), set(), set())
