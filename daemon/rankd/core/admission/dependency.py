"""When a job that waits for others, or for a time, becomes eligible; and when it never will.

The conditions are those of ``sbatch --dependency``. An array counts as one job: it has completed once all its tasks
have. Every job only waits for jobs that were submitted before it. So no job can wait for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.core.model.index_set import IndexSet, contains, count, without
from rankd.core.model.job import BY_INDEX, FINAL_STATES, SINGLETON, Dependency, JobRequest, State
from rankd.core.model.quantity import LARGEST
from rankd.core.near_name import cut

DEPENDENCY = "dependency"
NEVER = "dependency never satisfied"
BEGIN_TIME = "begin time"
MOST_BY_INDEX = 16
"""An array waits by index for this many arrays at most. To compare two with 10,000 ranges takes 0.1 s."""

Awaited = int | str
"""What a dependency names: a job or an array (17), or a task of an array (``17_3``)."""


class Standing(IntEnum):
    """Whether a dependency is met, may still be met, or can't be met any more."""

    MET = 0
    OPEN = 1
    NEVER = 2


class Progress(msgspec.Struct, frozen=True):
    """The progress of a job that others wait for.

    ``is_spoilt``: of an array, whether a task has ended without completing. Then the array can't complete any more.
    """

    state: State
    has_begun: bool
    is_spoilt: bool = False


class ByIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The pending tasks of an array of which each waits for the task of the same index (``aftercorr``).

    ``eligible``: the tasks whose counterparts have completed. ``unmet``: those whose counterparts have ended otherwise.
    ``is_known``: whether the counterparts that had ended before the array was submitted have been looked up.
    """

    tasks: int
    eligible: int
    unmet: int
    is_known: bool = True


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job that is not eligible for a reason other than a hold; or an array that waits by index.

    ``order``: the id by which it counts as submitted before or after others; of a task, its array's. ``task``: the
    index of a task. ``cancel_if_unmet``: None means the setting. ``shown``: why it waits, as its record says; None for
    an array of which some tasks are eligible.
    """

    job: int
    held: bool
    begin_at: float | None
    depends_on: tuple[Dependency, ...] = ()
    order: int = 0
    task: int | None = None
    cancel_if_unmet: bool | None = None
    by_index: ByIndex | None = None
    shown: str | None = DEPENDENCY

    @property
    def is_singleton(self) -> bool:
        """Whether it waits for all earlier jobs of the same user and name."""
        return any(one.type == SINGLETON for one in self.depends_on)


def awaited(dependency: Dependency, task: int | None = None) -> Awaited | None:
    """What this dependency of a job waits for; None for jobs that are not named by id. ``task``: the job's own index.

    Raises:
        Refused: ``bad_dependency``: its name is not a job or one task.
    """
    if dependency.type == SINGLETON or dependency.job is None:
        return None
    name = dependency.job if isinstance(dependency.job, int) else _task_name(dependency.job)
    if dependency.type == BY_INDEX and task is not None and isinstance(name, int):
        return f"{name}_{task}"
    return name


def _task_name(text: str) -> Awaited:
    try:
        name = parse_name(text)
    except Refused:
        message = f"depends_on names job '{cut(text)}'; give a job's id, such as 17, or a task's name, such as 17_3"
        raise Refused("bad_dependency", message, "depends_on") from None
    if count(name.indices) > 1:
        message = f"depends_on names several tasks, {name}; name each task, such as {name.job}_3, or all: {name.job}"
        raise Refused("bad_dependency", message, "depends_on")
    return str(name) if name.indices else name.job


def job_in(name: Awaited) -> int:
    """The job, or the array, of which a dependency names the whole or a task."""
    return name if isinstance(name, int) else parse_name(name).job


def named_jobs(dependencies: Iterable[Dependency], task: int | None = None) -> Iterator[Awaited]:
    """The names of the jobs, arrays and tasks in these dependencies."""
    return (name for one in dependencies if (name := awaited(one, task)) is not None)


def check_form(dependencies: Iterable[Dependency]) -> None:
    """Check that each dependency names a job, an array or one task by its id, and ``singleton`` none.

    At most :data:`MOST_BY_INDEX` arrays are awaited by index.

    Raises:
        Refused: ``bad_dependency``.
    """
    dependencies = list(dependencies)
    by_index = len({one.job for one in dependencies if one.type == BY_INDEX})
    if by_index > MOST_BY_INDEX:
        message = f"aftercorr names {by_index} arrays, {MOST_BY_INDEX} are allowed; let an array wait for fewer"
        raise Refused("bad_dependency", message, "depends_on")
    for one in dependencies:
        if one.type == SINGLETON:
            if one.job is not None:
                message = "singleton waits for all earlier jobs of the same user and name; leave out the job"
                raise Refused("bad_dependency", message, "depends_on")
            continue
        name = awaited(one)
        if name is None or not 1 <= job_in(name) <= LARGEST:
            message = f"depends_on names job '{cut(str(one.job))}'; give a job's id, a whole number from 1"
            raise Refused("bad_dependency", message, "depends_on")


def check_known(dependencies: Iterable[Dependency], known: Collection[Awaited]) -> None:
    """Check that all jobs in these dependencies exist.

    Raises:
        Refused: ``unknown_dependency``, with the first ids that do not exist.
    """
    unknown = [str(job) for job in named_jobs(dependencies) if job not in known]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        message = (
            f"depends_on names job {', '.join(unknown[:5])}{more}, which does not exist, or which you may not see; "
            "submit that job first, and name the id that it got"
        )
        raise Refused("unknown_dependency", message, "depends_on", status=404)


def check_earlier(job: int | str, order: int, dependencies: Iterable[Dependency]) -> None:
    """Check that a job only waits for earlier ones, so that no jobs wait for each other. ``job``: how people name it.

    Raises:
        Refused: ``bad_dependency``.
    """
    later = next((name for name in named_jobs(dependencies) if job_in(name) >= order), None)
    if later is not None:
        would = "wait for itself" if job_in(later) == order else f"wait for job {later}, which was submitted after it"
        raise Refused("bad_dependency", f"job {job} would {would}; name an earlier job", "depends_on")


def check_by_index(
    dependencies: Iterable[Dependency],
    own: IndexSet | None,
    arrays: Mapping[int, IndexSet],
    task: int | None = None,
    *,
    is_part: bool = False,
) -> None:
    """Check that ``aftercorr`` is between arrays with the same indices.

    Args:
        dependencies: of a job.
        own: the indices of the job, if it is an array.
        arrays: the indices of the arrays in the dependencies, by job.
        task: the index of the job, if it is a task with a record of its own.
        is_part: whether the job is a part of an array, submitted again: it may have fewer indices.

    Raises:
        Refused: ``bad_dependency``.
    """
    for name in dict.fromkeys(awaited(one) for one in dependencies if one.type == BY_INDEX):
        other = arrays.get(name) if isinstance(name, int) else None
        if other is None:
            message = f"aftercorr names {name}, which is not an array; name an array, or use afterok"
        elif own is None and task is None:
            message = f"aftercorr of array {name} needs an array of the same indices; use afterok, or submit an array"
        elif own is not None and not _fits(own, other, is_part=is_part):
            message = f"aftercorr needs the same indices, and those of array {name} are others; use afterok"
        elif task is not None and not contains(other, task):
            message = f"aftercorr of array {name} has no task {task}; name an array with this index"
        else:
            continue
        raise Refused("bad_dependency", message, "depends_on")


def _fits(own: IndexSet, other: IndexSet, *, is_part: bool) -> bool:
    """Whether the indices are the same, or a part. Usually they are written alike, which is seen at once."""
    return own == other or not (without(own, other) or (without(other, own) and not is_part))


def blocked_by(
    blocked: Blocked, progress: Mapping[Awaited, Progress], now: float, before: Mapping[int, int] | None = None
) -> str | None:
    """Why the job is still not eligible; None once it is.

    ``before``: of the jobs that wait for earlier ones of the same user and name, the last such job that has not ended.
    """
    worst = max((_standing(one, blocked, progress, before or {}) for one in blocked.depends_on), default=Standing.MET)
    if worst is not Standing.MET:
        return NEVER if worst is Standing.NEVER else DEPENDENCY
    if blocked.begin_at is not None and blocked.begin_at > now:
        return BEGIN_TIME
    return None


def unmet_fact(blocked: Blocked, progress: Mapping[Awaited, Progress]) -> str:
    """The dependencies that can't be met any more, in words: which jobs, and their states."""
    return "; ".join(
        f"{one.type} of job {name} ({state_of(progress.get(name))})"
        for one in blocked.depends_on
        if _standing(one, blocked, progress, {}) is Standing.NEVER
        for name in named_jobs([one], blocked.task)
    )


def state_of(progress: Progress | None) -> str:
    """The state of an awaited job, in words."""
    if progress is None:
        return "not known"
    return "a task did not complete" if progress.is_spoilt and progress.state not in FINAL_STATES else progress.state


def blocked_at_submission(request: JobRequest, now: float) -> str | None:
    """Why a new job is not eligible yet; None if it is.

    A job with dependencies is always blocked here. They are looked up afterwards.
    """
    if request.depends_on:
        return DEPENDENCY
    return BEGIN_TIME if request.begin_at is not None and request.begin_at > now else None


def _standing(
    dependency: Dependency, blocked: Blocked, progress: Mapping[Awaited, Progress], before: Mapping[int, int]
) -> Standing:
    if dependency.type == SINGLETON:
        return Standing.OPEN if blocked.job in before else Standing.MET
    if dependency.type == BY_INDEX and blocked.by_index is not None:
        return standing_by_index(blocked.by_index)
    name = awaited(dependency, blocked.task)
    other = None if name is None else progress.get(name)
    return Standing.OPEN if other is None else standing(dependency.type, other)


def standing_by_index(tasks: ByIndex) -> Standing:
    """Whether any pending task of an array may start, or may start later."""
    if tasks.eligible:
        return Standing.MET
    return Standing.NEVER if tasks.is_known and tasks.unmet >= tasks.tasks else Standing.OPEN


def standing(kind: str, other: Progress) -> Standing:
    """Whether a condition on a known job is met."""
    has_ended, is_completed = other.state in FINAL_STATES, other.state is State.COMPLETED
    match kind:
        case "afterok" | "aftercorr":
            can_complete = not has_ended and not other.is_spoilt
            return Standing.MET if is_completed else Standing.OPEN if can_complete else Standing.NEVER
        case "afternotok":
            return Standing.NEVER if is_completed else Standing.MET if has_ended else Standing.OPEN
        case "afterany":
            return Standing.MET if has_ended else Standing.OPEN
        case _:
            return Standing.MET if other.has_begun or has_ended else Standing.OPEN
