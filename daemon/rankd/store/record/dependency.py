"""Dependencies of jobs in the records: the progress of the awaited jobs, and which jobs wait for which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import and_, bindparam, select, true, update

from rankd.core.admission.dependency import BEGIN_TIME, Blocked, Progress, blocked_by
from rankd.core.model.job import Dependency, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import elements_of, item_of, listed, values_of
from rankd.store.schema.table import jobs

_DEPENDENCIES = msgspec.json.Decoder(list[Dependency])

_OF, _WANTED = jobs.c, listed("jobs")
_ARE_WANTED = _OF.id.in_(values_of("jobs"))
_KNOWN = select(_OF.id).where(_ARE_WANTED)
_PROGRESS = select(_OF.id, _OF.state, _OF.started_at).where(_ARE_WANTED)
_BLOCKED = (
    select(_OF.id, _OF.held, _OF.begin_at, _OF.depends_on)
    .join_from(_WANTED, jobs, _OF.id == _WANTED.c.value)
    .where(_OF.state == State.PENDING.value, _OF.blocked_by.is_not(None), _OF.revision > bindparam("after"))
)
_FOR_ITS_TIME = update(jobs).where(_ARE_WANTED, _OF.blocked_by.is_not(None)).values(blocked_by=BEGIN_TIME)

_FIRST = select(_WANTED.c.value.label("id")).cte("waited_for", recursive=True)
_DEPENDS_ON = elements_of(_OF.depends_on)
_IS_WAITING = and_(_OF.id == _FIRST.c.id, _OF.state == State.PENDING.value, _OF.depends_on.is_not(None))
_NEXT = select(item_of(_DEPENDS_ON.c.value, "$.job")).join_from(_FIRST, jobs, _IS_WAITING).join(_DEPENDS_ON, true())
_WAITED_FOR = select(_FIRST.union(_NEXT).c.id)


def progress_of(connection: Connection, dependencies: Iterable[Dependency]) -> dict[int, Progress]:
    """The progress of the awaited jobs; unknown jobs are left out."""
    wanted = {dependency.job for dependency in dependencies if isinstance(dependency.job, int)}
    rows = connection.execute(_PROGRESS, {"jobs": wanted})
    return {id_: Progress(State(state), started is not None) for id_, state, started in rows}


def known_jobs(connection: Connection, ids: Iterable[int]) -> set[int]:
    """Those of these ids that belong to jobs."""
    return set(connection.execute(_KNOWN, {"jobs": ids}).scalars())


def blocked_jobs(connection: Connection, jobs: Sequence[int], after: int = -1) -> list[Blocked]:
    """Those of these jobs that wait for other jobs or for a time, and have changed after the event ``after``."""
    rows = connection.execute(_BLOCKED, {"jobs": jobs, "after": after}).all()
    return [
        Blocked(job=id_, held=held, begin_at=begin_at, depends_on=dependencies_of(depends_on))
        for id_, held, begin_at, depends_on in rows
    ]


def show_begin_time(connection: Connection, jobs: Iterable[int]) -> None:
    """Show for these jobs that they only wait for their begin time. This does not count as an event of the jobs."""
    connection.execute(_FOR_ITS_TIME, {"jobs": jobs})


def still_blocked(connection: Connection, jobs: Sequence[int], seen: int, now: float) -> set[int]:
    """Those of these jobs that have changed after the event ``seen`` and still wait for something."""
    blocked = blocked_jobs(connection, jobs, seen)
    if not blocked:
        return set()
    progress = progress_of(connection, (dependency for one in blocked for dependency in one.depends_on))
    return {one.job for one in blocked if blocked_by(one, progress, now) is not None}


def dependencies_of(stored: str | None) -> tuple[Dependency, ...]:
    """The dependencies in a job's record."""
    return tuple(_DEPENDENCIES.decode(stored)) if stored else ()


def waited_for(connection: Connection, jobs: Iterable[int | str]) -> set[int]:
    """These jobs, and, for each of them that is pending, all jobs for which it waits."""
    first = [job for job in jobs if isinstance(job, int)]
    return {job for job in connection.execute(_WAITED_FOR, {"jobs": first}).scalars() if isinstance(job, int)}
