"""What ranges of ids mean for requests that change jobs: the jobs and arrays in them, never tasks by their records.

Also the names in a filter that mean nothing.

A range selects like a filter: jobs that have ended are passed over, and those of users whose jobs the asker may not
change. A range that selects no job at all is a failure.

Uses SQLAlchemy Core: a range costs 0.1 ms more than as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, bindparam, func, or_, select

from rankd.core.errors import Refused
from rankd.core.model.id_range import bounds, written_range
from rankd.core.model.job import ACTIVE_STATES, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, number_of, values_of
from rankd.store.engine.plan import in_order
from rankd.store.engine.word import TEXTS, VALUES
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import jobs
from rankd.wire.message import Failed

MOST_IN_RANGES = 10_000
"""The most jobs that a range may mean in a request without a filter. One with a filter is answered in parts."""

_RANGES = listed("ranges", VALUES)
_FIRST, _LAST = number_of(_RANGES.c.value, "$[0]"), number_of(_RANGES.c.value, "$[1]")
_HAVE_NOT_ENDED = jobs.c.state.in_([State.PENDING.value, *(state.value for state in sorted(ACTIVE_STATES))])
"""As parameters, so that the jobs are read by their ids, not by their states."""
WIDE = 10_000
"""In a longer range, jobs are read by their states: nearly all that have these ids may have ended long ago."""

IN_RANGES = (
    select(jobs.c.id)
    .select_from(in_order(_RANGES, jobs, jobs.c.id.between(_FIRST, _LAST)))
    .where(jobs.c.array_job.is_(None))
    .union_all(select(jobs.c.id).select_from(in_order(_RANGES, jobs, jobs.c.array_job.between(_FIRST, _LAST))))
)
"""The records of the jobs and arrays in ``ranges``, the :func:`bounds` of them, with those of their tasks."""

_IN_RANGE = select(jobs.c.id).where(
    jobs.c.array_job.is_(None), jobs.c.id.between(bindparam("first"), bindparam("last"))
)
_THESE = select(jobs.c.id).where(jobs.c.id.in_(values_of("ids")))
_OF_ARRAYS = select(jobs.c.id, func.coalesce(jobs.c.array_job, jobs.c.id)).where(
    jobs.c.id.in_(values_of("ids")), or_(jobs.c.array_job.is_not(None), jobs.c.array.is_not(None))
)
_OF_USERS = jobs.c.user.in_(values_of("users", TEXTS))


def active_in(connection: Connection, ids: range, users: Sequence[str] | None) -> list[int]:
    """The jobs and arrays in a range that have not ended, ascending. ``users`` None means those of all users.

    Raises:
        Refused: ``too_many``.
    """
    query = _IN_RANGE if users is None else _IN_RANGE.where(_OF_USERS)
    query = query.where(_have_not_ended(ids)).order_by(jobs.c.id).limit(MOST_IN_RANGES + 1)
    found = list(connection.execute(query, _values(ids, users)).scalars())
    if len(found) > MOST_IN_RANGES:
        message = (
            f"more than {MOST_IN_RANGES} jobs in {written_range(ids)} have not ended; name fewer, or name the range in"
            " a filter, which is answered in parts"
        )
        raise Refused("too_many", message, "ids")
    return found


def nothing_in(connection: Connection, ids: range, users: Sequence[str] | None) -> Failed | None:
    """The failure if no job in the range can be changed; None if one can."""
    query = (_IN_RANGE if users is None else _IN_RANGE.where(_OF_USERS)).limit(1)
    values = _values(ids, users)
    if connection.execute(query.where(_have_not_ended(ids)), values).first() is not None:
        return None
    name = written_range(ids)
    if connection.execute(query, values).first() is not None:
        message = f"every job in {name} has ended; there is nothing to change"
        return Failed(id=name, code="already_ended", message=message)
    own = "" if users is None else f" of {', '.join(users)}"
    return Failed(id=name, code="unknown_job", message=f"there is no job{own} in {name}")


def _have_not_ended(ids: range) -> ColumnElement[bool]:
    return _HAVE_NOT_ENDED if ids.stop - ids.start <= WIDE else IS_ACTIVE


def unknown(connection: Connection, ids: Sequence[int], users: Sequence[str] | None) -> list[Failed]:
    """A failure for each of these jobs that does not exist, or is not one of these users'."""
    query = _THESE if users is None else _THESE.where(_OF_USERS)
    found = set(connection.execute(query, {"ids": ids, **({} if users is None else {"users": users})}).scalars())
    own = "" if users is None else f" of {', '.join(users)}"
    return [
        Failed(id=job, code="unknown_job", message=f"there is no job {job}{own}") for job in ids if job not in found
    ]


def arrays_among(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    """The array of each of these records that is the rest of one, or a task of one."""
    return dict(tuple(row) for row in connection.execute(_OF_ARRAYS, {"ids": ids}))


def _values(ids: range, users: Sequence[str] | None) -> dict[str, object]:
    [(first, last)] = bounds([ids])
    return {"first": first, "last": last, **({} if users is None else {"users": users})}
