"""Pending jobs that came or changed since an event: what an intake has to count that did not write them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from rankd.core.model.job import Event, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed
from rankd.store.schema.table import applications, arrays, associations, job_events, jobs, queues, versions

_COUNTS = frozenset({Event.SUBMIT, Event.SPLIT, Event.UPDATE, Event.REQUEUE, Event.TAKE_BACK})
"""Events after which a user, an account, or a kind of jobs may have one more."""
_KIND = (jobs.c.user, associations.c.account, jobs.c.shape, jobs.c.constraints, queues.c.path, applications.c.name)
AT_ONCE = 1_000
"""Events that are read by one query. A limit and an order alone are found by the index of ids, also where the server
knows nothing yet of a table that has just grown. With any other condition, it read all events or all pending jobs."""
_CHANGED = (
    select(job_events.c.id, job_events.c.job_id, job_events.c.event)
    .where(job_events.c.id > bindparam("event"))
    .order_by(job_events.c.id)
    .limit(AT_ONCE)
)
_WANTED = listed("wanted")
_NEW = (
    select(*_KIND, func.count(), func.sum(func.coalesce(arrays.c.n_pending, 1)))
    .join_from(_WANTED, jobs, jobs.c.id == _WANTED.c.value)
    .join(associations, associations.c.id == jobs.c.association_id)
    .join(queues, queues.c.id == jobs.c.queue_id)
    .outerjoin(applications, applications.c.id == jobs.c.application_id)
    .outerjoin(arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.state == State.PENDING.value)
    .group_by(*_KIND)
)
_NEWEST = select(
    select(func.coalesce(func.max(versions.c.number), 0)).where(versions.c.name == "catalog").scalar_subquery(),
    select(func.coalesce(func.max(job_events.c.id), 0)).scalar_subquery(),
)


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
    return Newest(*connection.execute(_NEWEST).one())


def pending_since(connection: Connection, event: int) -> Sequence[NewPending]:
    """The pending jobs that came or changed after this event, by kind; a kind may have several rows."""
    found: list[NewPending] = []
    changed = connection.execute(_CHANGED, {"event": event}).all()
    while changed:
        if wanted := [row.job_id for row in changed if row.event in _COUNTS]:
            found += [NewPending(*row) for row in connection.execute(_NEW, {"wanted": wanted})]
        is_last = len(changed) < AT_ONCE
        changed = () if is_last else connection.execute(_CHANGED, {"event": changed[-1].id}).all()
    return found
