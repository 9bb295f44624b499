"""Writes forecasts: the present range of each job, the estimates that were shown, and when their jobs started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, update

from rankd.core.forecast.outlook import StartRange
from rankd.core.model.job import ENDED_BADLY, State
from rankd.store.engine.bulk import bulk_replace
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of, written
from rankd.store.engine.plan import most
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import forecasts, jobs, start_estimates, start_ranges

PART = 500
"""Rows that are written or deleted in a transaction."""
MOST_OF_JOB = 16
"""Estimates of a job that are kept. A later one replaces the newest of them."""
MOST_OPEN_OF_USER = 1_000
"""Estimates of a user's jobs that have not started yet. More are not recorded."""

_E, _OF, _TASK = start_estimates.c, jobs.c, jobs.alias("task")
_NO_RANGES = delete(start_ranges).where(start_ranges.c.job_id.in_(values_of("ids")))
_ALL_IDS = select(start_ranges.c.job_id)
_KNOWN = (
    select(_E.job_id, func.count(), func.max(_E.id), func.max(_E.made_at))
    .where(_E.job_id.in_(values_of("ids")))
    .group_by(_E.job_id)
)
_N_OPEN = (
    select(_E.user, func.count())
    .where(_E.user.in_(select(_OF.user).where(_OF.id.in_(values_of("ids")))), _E.started_at.is_(None))
    .group_by(_E.user)
)
_STARTED = (
    select(_E.id, _OF.started_at)
    .join_from(start_estimates, jobs, _OF.id == _E.job_id)
    .where(_E.started_at.is_(None), _OF.started_at.is_not(None))
    .limit(most(PART))
)
_STARTED_TASKS = (
    select(_E.id, func.min(_TASK.c.started_at))
    .join_from(start_estimates, _TASK, and_(_TASK.c.array_job == _E.job_id, _TASK.c.started_at >= _E.made_at))
    .where(_E.started_at.is_(None))
    .group_by(_E.id)
    .limit(most(PART))
)
_SCORE = update(start_estimates).where(_E.id == bindparam("of")).values(started_at=bindparam("at"))
_NEVER = (
    select(_E.id)
    .where(
        _E.started_at.is_(None),
        or_(
            ~exists().where(_OF.id == _E.job_id),
            exists().where(
                _OF.id == _E.job_id,
                _OF.started_at.is_(None),
                _OF.state.in_(written(*sorted(ENDED_BADLY - {State.TIMEOUT}))),
            ),
        ),
    )
    .limit(most(PART))
)
_OLD = select(_E.id).where(_E.shown_at < bindparam("before")).order_by(_E.id).limit(most(PART))
_DELETE = delete(start_estimates).where(_E.id.in_(values_of("ids")))


class ForecastRow(NamedTuple):
    """What is recorded about a forecast as a whole; the fields are the columns of the table."""

    made_at: float
    generation: int
    jobs: int
    beyond: int
    took_s: float
    cpu_s: float


class Shown(NamedTuple):
    """A range that somebody was shown. ``user``: of the job."""

    job: int
    user: str
    made_at: float
    shown_at: float
    early: float
    late: float | None


def known_ranges(connection: Connection) -> set[int]:
    """The jobs that have a range now."""
    return set(connection.execute(_ALL_IDS).scalars())


def save_ranges(connection: Connection, ranges: Sequence[StartRange], gone: Sequence[int]) -> None:
    """Replace the ranges of these jobs, and delete those of the jobs in ``gone``."""
    if ranges:
        bulk_replace(connection, start_ranges, ranges)
    if gone:
        connection.execute(_NO_RANGES, {"ids": gone})


def save_forecast(connection: Connection, row: ForecastRow) -> None:
    """Note that all ranges are now those of this forecast."""
    upsert(connection, forecasts, ("id",), [{"id": 1, **row._asdict()}])


def note_shown(connection: Connection, shown: Sequence[Shown]) -> int:
    """Record estimates that were shown; returns how many. The same estimate is recorded once."""
    asked = {"ids": sorted({one.job for one in shown})}
    known = {job: (number, newest, made_at) for job, number, newest, made_at in connection.execute(_KNOWN, asked)}
    n_open = {user: int(number) for user, number in connection.execute(_N_OPEN, asked)}
    new: dict[tuple[int, float], Shown] = {}
    for one in shown:
        number, newest, made_at = known.get(one.job, (0, None, 0.0))
        if one.made_at <= made_at or n_open.get(one.user, 0) >= MOST_OPEN_OF_USER:
            continue
        if number >= MOST_OF_JOB and newest is not None:
            connection.execute(_DELETE, {"ids": [newest]})
        known[one.job] = (number + 1, None, one.made_at)
        n_open[one.user] = n_open.get(one.user, 0) + 1
        new[one.job, one.made_at] = one
    rows = [{"job_id": one.job, **one._asdict()} for one in new.values()]
    for row in rows:
        del row["job"]
    upsert(connection, start_estimates, ("job_id", "made_at"), rows, kept=("shown_at",))
    return len(rows)


def score_started(connection: Connection) -> int:
    """Give estimates the start of their jobs, some at a time; returns how many. 0: all are up to date.

    Estimates of jobs that will never start are deleted.
    """
    rows = [(id_, at) for query in (_STARTED, _STARTED_TASKS) for id_, at in connection.execute(query)]
    if rows:
        connection.execute(_SCORE, [{"of": id_, "at": at} for id_, at in rows])
    never = list(connection.execute(_NEVER).scalars())
    if never:
        connection.execute(_DELETE, {"ids": never})
    return len(rows) + len(never)


def prune_estimates(connection: Connection, before: float) -> int:
    """Delete some estimates that were shown before this time; returns how many."""
    ids = list(connection.execute(_OLD, {"before": before}).scalars())
    if ids:
        connection.execute(_DELETE, {"ids": ids})
    return len(ids)
