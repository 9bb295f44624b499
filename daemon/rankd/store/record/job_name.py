"""What the names in a request mean: jobs, whole arrays, and tasks of arrays with and without records of their own.

Uses SQLAlchemy Core: a request that names jobs which are no arrays costs two look-ups more, 40 µs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from rankd.core.errors import Refused
from rankd.core.model.array import JobName, by_kind, parse_name
from rankd.core.model.id_range import apart
from rankd.core.model.index_set import IndexSet, common, count, each, of, read, union, without
from rankd.core.model.job import State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.record.job_range import active_in, nothing_in
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import arrays, associations, jobs
from rankd.wire.message import Failed

WHOLE_ARRAY = 50
"""An array of 10,000 ranges takes 60 ms to change: a transaction of 250 such changes would hold up all other users."""
MOST_TASKS = 10_000
"""The most tasks that a request may name one by one: each of them gets a record of its own."""

_ARRAYS = (
    select(arrays.c.job_id, jobs.c.state)
    .join_from(arrays, jobs, jobs.c.id == arrays.c.job_id)
    .where(arrays.c.job_id.in_(values_of("jobs")))
)
_OPEN_TASKS = select(jobs.c.id).where(jobs.c.array_job == bindparam("array"), IS_ACTIVE).order_by(jobs.c.array_task)
_TASKS = select(jobs.c.array_task, jobs.c.id).where(
    jobs.c.array_job == bindparam("array"), jobs.c.array_task.in_(values_of("indices"))
)
_OWNERS = (
    select(jobs.c.id, jobs.c.user, associations.c.account)
    .join_from(jobs, associations, associations.c.id == jobs.c.association_id)
    .where(jobs.c.id.in_(values_of("jobs")))
)
_INDICES = (
    select(jobs.c.array, arrays.c.cancelled)
    .join_from(arrays, jobs, jobs.c.id == arrays.c.job_id)
    .where(arrays.c.job_id == bindparam("array"))
)


class Target(NamedTuple):
    """A record that a request is about; with ``task``, the task of an array that has no record yet.

    ``of_whole``: it is meant because its whole array was named. If the action can't apply to it, it is passed over.
    ``array``: this array. If the action applies to none of its targets, that is a failure. None: it does not matter.
    """

    job: int
    task: int | None = None
    of_whole: bool = False
    array: int | None = None

    @property
    def is_descendant(self) -> bool:
        """Whether it is meant because it waits for another one, not by its name or by a filter."""
        return self.of_whole and self.array is None

    @property
    def name(self) -> int | str:
        """How people name it."""
        return self.job if self.task is None else f"{self.job}_{self.task}"


class Targets(NamedTuple):
    """The records and tasks that names mean, each once; and the names that mean nothing."""

    found: list[Target]
    failed: list[Failed]


def jobs_in(names: Iterable[int | str]) -> set[int]:
    """The jobs and arrays of these names. Those of ranges of ids are left out.

    Raises:
        Refused: ``bad_job_id``, ``bad_array``, ``array_too_large``.
    """
    numbers, texts = by_kind(apart(names).names)
    return {*numbers, *(parse_name(name).job for name in texts)}


def targets_of(
    connection: Connection,
    names: Iterable[int | str],
    closed: Collection[int] = (),
    users: Sequence[str] | None = None,
) -> Targets:
    """What these names mean at present.

    ``closed``: jobs and arrays of which nothing is looked up, because the asker may not know. Each name of them is a
    target as it stands, for which the asker is refused.
    ``users``: the users whose jobs ranges of ids mean; None: all.

    Raises:
        Refused: ``bad_job_id``, ``bad_array``, ``array_too_large``: a text is no name. ``too_many_tasks``,
            ``too_many``.
    """
    given = apart(names)
    numbers, texts = by_kind(given.names)
    in_ranges = [job for ids in given.ranges for job in active_in(connection, ids, users)]
    numbers = list(dict.fromkeys([*numbers, *in_ranges])) if in_ranges else numbers
    empty = [failure for ids in given.ranges if (failure := nothing_in(connection, ids, users)) is not None]
    parsed = [parse_name(name) for name in texts]
    if sum(count(name.indices) for name in parsed) > MOST_TASKS:
        message = f"at most {MOST_TASKS} tasks can be named at once; name the whole array, or fewer tasks"
        raise Refused("too_many_tasks", message, "ids")
    looked_up = {*numbers, *(name.job for name in parsed)}.difference(closed)
    states = {row[0]: State(row[1]) for row in connection.execute(_ARRAYS, {"jobs": looked_up})}
    found = [target for job in numbers for target in _whole(connection, job, states)]
    failed = empty
    named: dict[int, list[IndexSet]] = {}
    for name in parsed:
        if name.indices:
            named.setdefault(name.job, []).append(name.indices)
        else:
            found += _whole(connection, name.job, states)
    for array, indices in named.items():
        if array in closed:
            found += [Target(array, index) for index in each(union(*indices))]
            continue
        of_name = _tasks(connection, JobName(array, union(*indices)), is_array=array in states)
        found += of_name.found
        failed += of_name.failed
    return Targets(each_once(found), failed)


def each_once(targets: Iterable[Target]) -> list[Target]:
    """These targets, each once. One that is also named by itself is not passed over."""
    found: dict[tuple[int, int | None], Target] = {}
    for target in targets:
        if not target.of_whole or (target.job, target.task) not in found:
            found[target.job, target.task] = target
    return list(found.values())


def named_again(targets: Iterable[Target], jobs: Collection[int]) -> list[Target]:
    """The targets with these records; a record without one is named by itself."""
    again = [one for one in targets if one.job in jobs]
    known = {one.job for one in again}
    return again + [Target(job) for job in jobs if job not in known]


def _whole(connection: Connection, job: int, states: Mapping[int, State]) -> list[Target]:
    """A job; or the pending rest of an array and its tasks that have not ended."""
    state = states.get(job)
    if state is None or state not in (State.PENDING, State.RUNNING):
        return [Target(job)]
    rest = [job] if state is State.PENDING else []
    tasks = connection.execute(_OPEN_TASKS, {"array": job}).scalars()
    return [Target(record, of_whole=True, array=job) for record in [*rest, *tasks]]


def _tasks(connection: Connection, name: JobName, *, is_array: bool) -> Targets:
    if not is_array:
        return Targets([], [Failed(id=str(name), code="unknown_job", message=f"there is no array {name.job}")])
    records = records_of(connection, name.job, name.indices)
    array, cancelled = connection.execute(_INDICES, {"array": name.job}).one()
    pending = common(read(array), name.indices)
    gone = common(read(cancelled), name.indices)
    known = of(records)
    lost = without(without(without(name.indices, pending), gone), known)
    failed = _failures(name.job, gone, "already_ended", "task {} is cancelled; there is nothing to change")
    failed += _failures(name.job, lost, "unknown_job", "there is no task {}")
    wanted: dict[int, Target] = {index: Target(name.job, index) for index in each(pending)}
    wanted |= {index: Target(record) for index, record in records.items()}
    return Targets([wanted[index] for index in sorted(wanted)], failed)


def _failures(array: int, indices: IndexSet, code: str, message: str) -> list[Failed]:
    names = (f"{array}_{index}" for index in each(indices))
    return [Failed(id=name, code=code, message=message.format(name)) for name in names]


def records_of(connection: Connection, array: int, indices: IndexSet) -> dict[int, int]:
    """The records of these tasks of an array, by index; tasks without one are left out."""
    rows = connection.execute(_TASKS, {"array": array, "indices": each(indices)})
    return dict(tuple(row) for row in rows)


def without_records(targets: Sequence[Target]) -> dict[int, IndexSet]:
    """The tasks without records among these targets, by array."""
    named: dict[int, list[int]] = {}
    for target in targets:
        if target.task is not None:
            named.setdefault(target.job, []).append(target.task)
    return {array: of(indices) for array, indices in named.items()}


class Owner(NamedTuple):
    """Whose tasks get records, in which account, and how many."""

    user: str
    account: str
    number: int


def owners_of(connection: Connection, arrays: Mapping[int, IndexSet]) -> dict[int, Owner]:
    """The owner of each of these arrays, with the number of the tasks."""
    rows = connection.execute(_OWNERS, {"jobs": arrays.keys()})
    return {array: Owner(user, account, count(arrays[array])) for array, user, account in rows}


def as_targets(found: Iterable[Target | int]) -> list[Target]:
    """These targets, each once; a number is a record."""
    return list(dict.fromkeys(one if isinstance(one, Target) else Target(one) for one in found))


def records(targets: Iterable[Target]) -> list[int]:
    """The records among these targets; of a task without one, that of its array."""
    return [target.job for target in targets]


def weight_of(targets: Sequence[Target]) -> int:
    """How many jobs these are worth in a transaction. A task without a record changes its whole array.

    >>> weight_of([Target(1), Target(2)]), weight_of([Target(1, task=3)])
    (2, 50)
    """
    return max(len(targets), WHOLE_ARRAY if any(target.task is not None for target in targets) else 0)
