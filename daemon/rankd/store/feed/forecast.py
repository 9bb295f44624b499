"""What the forecaster reads besides the scheduler's memory: whose jobs run and wait, and how long ended jobs ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from rankd.core.admission.dependency import Awaited, Blocked, Progress, named_jobs
from rankd.core.forecast.pace import Pair
from rankd.core.model.job import State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of, written
from rankd.store.engine.plan import by_index, most
from rankd.store.record.dependency import blocked_jobs, predecessors_of, progress_of
from rankd.store.schema.table import allocations, associations, jobs

MOST_ENDED = 20_000
"""The most changed jobs that one reading looks at for those that have ended."""

_OF = jobs.c
_OPEN = (
    select(allocations.c.id, _OF.id, associations.c.account, _OF.user)
    .join_from(allocations, jobs, _OF.id == allocations.c.job_id)
    .join(associations, associations.c.id == _OF.association_id)
    .where(allocations.c.ended_at.is_(None))
)
_WAITING = (
    select(_OF.id, associations.c.account, _OF.user)
    .join_from(jobs, associations, associations.c.id == _OF.association_id)
    .where(_OF.id.in_(values_of("ids")))
)
_RECENT = (
    by_index(select(_OF.id, _OF.revision).where(_OF.revision > bindparam("after")), jobs, "jobs_revision")
    .order_by(_OF.revision.desc())
    .limit(most(MOST_ENDED))
    .subquery()
)
_ENDED = (
    select(associations.c.account, _OF.user, _OF.ended_at - _OF.started_at, _OF.time_limit_s, _OF.revision)
    .join_from(_RECENT, jobs, _OF.id == _RECENT.c.id)
    .join(associations, associations.c.id == _OF.association_id)
    .where(
        _OF.state.in_(written(State.COMPLETED, State.FAILED, State.TIMEOUT)),
        _OF.started_at.is_not(None),
        _OF.ended_at.is_not(None),
        _OF.time_limit_s > 0,
    )
    .order_by(_OF.revision)
)
_NEWEST = select(func.coalesce(func.max(_OF.revision), 0))


class OpenJob(NamedTuple):
    """The job of an open allocation, with its account and user."""

    job: int
    pair: Pair


class EndedRun(NamedTuple):
    """How long a job ran, and its time limit, in seconds."""

    pair: Pair
    run_s: float
    limit_s: float


class EndedRuns(NamedTuple):
    """Jobs that have ended, oldest first, up to the event ``revision``."""

    runs: Sequence[EndedRun]
    revision: int


class BlockedState(NamedTuple):
    """Pending jobs that wait for others or for a time, with the progress of those, and the last job of each name."""

    blocked: Sequence[Blocked]
    progress: Mapping[Awaited, Progress]
    before: Mapping[int, int]


def open_jobs(connection: Connection) -> dict[int, OpenJob]:
    """The jobs of all open allocations, by allocation."""
    return {id_: OpenJob(job, (account, user)) for id_, job, account, user in connection.execute(_OPEN)}


def pairs_of(connection: Connection, ids: Collection[int]) -> dict[int, Pair]:
    """Account and user of each of these jobs."""
    rows = connection.execute(_WAITING, {"ids": list(ids)}) if ids else ()
    return {id_: (account, user) for id_, account, user in rows}


def ended_runs(connection: Connection, after: int) -> EndedRuns:
    """The jobs that have ended after the event ``after``; of more than :data:`MOST_ENDED` changes, the newest count."""
    newest = int(connection.execute(_NEWEST).scalar_one())
    if newest <= after:
        return EndedRuns([], after)
    rows = connection.execute(_ENDED, {"after": after})
    return EndedRuns([EndedRun((account, user), run_s, limit_s) for account, user, run_s, limit_s, _ in rows], newest)


def blocked_state(connection: Connection, ids: Sequence[int]) -> BlockedState:
    """Those of these pending jobs that wait for others or for a time, and what they wait for."""
    blocked = blocked_jobs(connection, ids) if ids else []
    names = {name for one in blocked for name in named_jobs(one.depends_on, one.task)}
    singletons = [one.job for one in blocked if one.is_singleton]
    return BlockedState(
        blocked,
        progress_of(connection, names) if names else {},
        predecessors_of(connection, singletons) if singletons else {},
    )
