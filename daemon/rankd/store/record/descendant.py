"""The jobs that depend on others, directly or through others: ``rankd cancel --descendants``.

Only jobs that still wait are found: pending ones, by ``job_waits``. One recursive statement follows all of them:
3.8 s for a chain of 100,000, on 2 busy cores (load average 25). Only between arrays by index, it is run again for each
array on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, or_, select

from rankd.core.model.index_set import contains, read
from rankd.core.model.job import BY_INDEX, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, number_of, values_of
from rankd.store.engine.plan import most
from rankd.store.engine.word import VALUES
from rankd.store.record.dependency import WHOLE
from rankd.store.record.job_name import Target
from rankd.store.schema.table import job_waits, jobs

MOST = 1_000_000
ANY = -2
"""In place of a task: all of the job or the array."""

_OF, _WAIT, _ROOTS = jobs.c, job_waits.c, listed("roots", VALUES)
_AWAITED, _TASK = number_of(_ROOTS.c.value, "$[0]"), number_of(_ROOTS.c.value, "$[1]")
_PARENT = jobs.alias("parent")
_STILL_WAITS = (
    _OF.id == _WAIT.job_id,
    _OF.state == State.PENDING.value,
    or_(_OF.blocked_by.is_not(None), _WAIT.type == BY_INDEX),
    or_(bindparam("user") == "", _OF.user == bindparam("user")),
)
_IS_AWAITED = and_(
    _WAIT.awaited == _AWAITED,
    or_(_TASK == ANY, _WAIT.task == _TASK, and_(_WAIT.task == WHOLE, _WAIT.type != BY_INDEX)),
)
_FIRST = (
    select(_OF.id.label("id"))
    .select_from(_ROOTS.join(job_waits, _IS_AWAITED).join(jobs, and_(*_STILL_WAITS)))
    .cte("descendants", recursive=True)
)
_OF_PARENT = and_(
    _WAIT.awaited.in_([_PARENT.c.id, _PARENT.c.array_job]),
    or_(
        _WAIT.awaited == _PARENT.c.id,
        _WAIT.task == _PARENT.c.array_task,
        and_(_WAIT.task == WHOLE, _WAIT.type != BY_INDEX),
    ),
)
_NEXT = select(_OF.id).select_from(
    _FIRST.join(_PARENT, _PARENT.c.id == _FIRST.c.id).join(job_waits, _OF_PARENT).join(jobs, and_(*_STILL_WAITS))
)
_DESCENDANTS = select(_FIRST.union(_NEXT).c.id).limit(most(MOST))
_RECORDS = select(_OF.id, _OF.array_job, _OF.array_task).where(
    _OF.id.in_(values_of("jobs")), _OF.array_job.is_not(None)
)
_BY_INDEX = select(_OF.id, _OF.array, _OF.array_task, _TASK).select_from(
    _ROOTS.join(job_waits, and_(_WAIT.awaited == _AWAITED, _WAIT.type == BY_INDEX)).join(jobs, and_(*_STILL_WAITS))
)
"""The arrays, and tasks with records of their own, that wait by index for the arrays of these tasks."""


def descendants_of(connection: Connection, roots: Sequence[Target], user: str | None) -> list[Target]:
    """The jobs and tasks that wait for these, directly or through others. ``user``: only of this user; None: of all."""
    found: dict[Target, None] = {}
    known, new = set(roots), list(roots)
    while new and len(found) < MOST:
        pairs = _pairs(connection, new)
        parameters = {"user": user or "", "roots": pairs}
        targets = [Target(job, of_whole=True) for job in connection.execute(_DESCENDANTS, parameters).scalars()]
        own = {target.job for target in targets}
        tasks = [*pairs, *_pairs(connection, targets)]
        targets += [one for one in _by_index(connection, tasks, user) if one.job not in own or one.task is None]
        new = [one for one in dict.fromkeys(targets) if one not in known]
        known.update(new)
        found |= dict.fromkeys(new)
        new = [one for one in new if one.task is not None or one.job not in own]
    return list(found)


def _pairs(connection: Connection, targets: Sequence[Target]) -> list[tuple[int, int]]:
    """Under what others may wait for these: (job, ``ANY``), or (array, task)."""
    whole = [one.job for one in targets if one.task is None]
    pairs = [(job, ANY) for job in whole] + [(one.job, one.task) for one in targets if one.task is not None]
    return pairs + [(array, task) for _, array, task in connection.execute(_RECORDS, {"jobs": whole})]


def _by_index(connection: Connection, pairs: Sequence[tuple[int, int]], user: str | None) -> list[Target]:
    tasks = [pair for pair in pairs if pair[1] != ANY]
    if not tasks:
        return []
    rows = connection.execute(_BY_INDEX, {"user": user or "", "roots": tasks})
    found = []
    for job, array, own, task in rows:
        if own == task:
            found.append(Target(job, of_whole=True))
        elif own is None and contains(read(array), task):
            found.append(Target(job, task, of_whole=True))
    return found
