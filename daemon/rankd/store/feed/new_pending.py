"""Pending jobs that came or changed since an event: what an intake has to count that did not write them itself.

What is newest is text, as it is part of the messages that begin and commit a transaction. That saves two answers of a
server, each of 0.5 to 1 ms under load, while nobody else can write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, func, select, true

from rankd.core.model.job import Event, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import elements_of, list_of
from rankd.store.record.catalog_version import CATALOG
from rankd.store.schema.table import applications, arrays, associations, job_events, jobs, queues

_COUNTS = [Event.SUBMIT.value, Event.SPLIT.value, Event.UPDATE.value, Event.REQUEUE.value, Event.TAKE_BACK.value]
"""Events after which a user, an account, or a kind of jobs may have one more."""
_KIND = (jobs.c.user, associations.c.account, jobs.c.shape, jobs.c.constraints, queues.c.path, applications.c.name)
AT_ONCE = 1_000
"""Events that are read by one query."""
_CHANGED = (
    select(job_events.c.id, job_events.c.job_id, job_events.c.event)
    .where(job_events.c.id > bindparam("event"))
    .order_by(job_events.c.id)
    .limit(AT_ONCE)
    .subquery("changed")
)
"""A limit and an order alone are found by the index of ids, also where the server knows nothing yet of a table that has
just grown. With any other condition, it read all events."""
_LIST = (
    select(list_of(_CHANGED.c.job_id).label("jobs"))
    .where(_CHANGED.c.id <= bindparam("until"), _CHANGED.c.event.in_(_COUNTS))
    .subquery("list")
)
_WANTED = elements_of(_LIST.c.jobs)
"""The server takes such a list for a short one, and so reads the jobs one by one."""
_NEW = (
    select(*_KIND, func.count(), func.sum(func.coalesce(arrays.c.n_pending, 1)), jobs.c.state)
    .select_from(_LIST)
    .join(_WANTED, true())
    .join(jobs, jobs.c.id == _WANTED.c.value)
    .join(associations, associations.c.id == jobs.c.association_id)
    .join(queues, queues.c.id == jobs.c.queue_id)
    .outerjoin(applications, applications.c.id == jobs.c.application_id)
    .outerjoin(arrays, arrays.c.job_id == jobs.c.id)
    .group_by(*_KIND, jobs.c.state)
)
"""The state is no condition: while the server knows little of a table that grows, it takes the pending jobs for few,
and would read them all instead of the listed ones."""
NEWEST = f"""SELECT coalesce((SELECT number FROM versions WHERE name = '{CATALOG}'), 0),
coalesce((SELECT max(id) FROM job_events), 0)"""
"""The row of :class:`Newest`."""


class Newest(NamedTuple):
    """The version of the catalog, and the newest event of a job."""

    version: int
    event: int


class NewPending(NamedTuple):
    """Some pending jobs of one kind: how many, and their tasks. One that changed twice counts twice."""

    user: str
    account: str
    shape: int
    constraints: str | None
    queue: str
    application: str | None
    jobs: int
    tasks: int


def newest(connection: Connection) -> Newest:
    """What a writer compares with what it knows, in one round trip."""
    return Newest(*connection.exec_driver_sql(NEWEST).one())


def pending_between(connection: Connection, event: int, last: int) -> Sequence[NewPending]:
    """The pending jobs that came or changed after this event, up to the last one, by kind.

    A kind may have several rows.
    """
    found: list[NewPending] = []
    for first in range(event, last, AT_ONCE):
        rows = connection.execute(_NEW, {"event": first, "until": min(first + AT_ONCE, last)})
        found += [NewPending(*kind) for *kind, state in rows if state == State.PENDING]
    return found
