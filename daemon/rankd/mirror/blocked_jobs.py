"""Jobs that wait for other jobs or for a time, and for which jobs they wait.

The table also collects which of them have to be looked at, because of what has changed. Each change only concerns the
jobs that wait for it. Of jobs that wait for all earlier ones of their name, each only waits for the one before it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec

from rankd.core.admission.dependency import Awaited, Blocked, job_in, named_jobs
from rankd.core.model.job import BY_INDEX, ENDED_BADLY, State
from rankd.store.feed.job import ChangedJob

_SPOILT, _BEGUN = "spoilt", "begun"


class Due(msgspec.Struct):
    """What has to be looked at.

    ``jobs``: blocked jobs. ``begun``: arrays of which a task has begun, for which jobs wait by ``after``. ``tasks``:
    of arrays that wait by index, the tasks whose counterparts have ended. ``arrays``: such arrays of which all
    counterparts have to be looked up.
    """

    jobs: set[int] = msgspec.field(default_factory=set)
    begun: set[int] = msgspec.field(default_factory=set)
    tasks: dict[int, set[int]] = msgspec.field(default_factory=dict)
    arrays: set[int] = msgspec.field(default_factory=set)

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.jobs or self.begun or self.tasks or self.arrays)

    def add(self, other: Due) -> None:
        """Look at what the other one has, too."""
        self.jobs |= other.jobs
        self.begun |= other.begun
        self.arrays |= other.arrays
        for job, tasks in other.tasks.items():
            self.tasks.setdefault(job, set()).update(tasks)


class BlockedJobs:
    """Blocked jobs by id, in :attr:`by_id`; also arrays that wait by index and of which some tasks may start."""

    def __init__(self) -> None:
        self.by_id: dict[int, Blocked] = {}
        self._guard = threading.Lock()
        """Needed because a thread reads changes while others are being looked at."""
        self._due = Due()
        self._waiting_for: dict[Awaited, set[int]] = {}
        """The jobs that depend on each job, array or task."""
        self._for_tasks_of: dict[int, set[int]] = {}
        """The jobs that depend on single tasks of each array."""
        self._by_index: dict[int, set[int]] = {}
        """The arrays of which each task waits for the same one of each array."""
        self._behind: dict[int, set[int]] = {}
        """The jobs that wait for each job because it is the last one before them of their name."""
        self._before: dict[int, int] = {}
        self._for_begin: dict[int, set[int]] = {}
        """The jobs that wait until each job or array has begun."""
        self._told: dict[str, set[int]] = {_SPOILT: set(), _BEGUN: set()}
        """The arrays that can't complete any more, and those that have begun, as far as jobs have been looked at."""
        self._cancelled: dict[int, int] = {}
        """For arrays with tasks that jobs wait for: a number that changes when pending tasks are cancelled."""
        self._begin_times: dict[int, float] = {}

    def clear(self) -> None:
        """Forget all of them."""
        with self._guard:
            self._due = Due()
            tables: tuple[MutableMapping[Any, Any], ...] = (
                self.by_id,
                self._waiting_for,
                self._for_tasks_of,
                self._for_begin,
                self._by_index,
                self._behind,
                self._before,
                self._cancelled,
                self._begin_times,
            )
            for table in tables:
                table.clear()
            for told in self._told.values():
                told.clear()

    def replace(self, changed: Iterable[int], blocked: Iterable[Blocked]) -> None:
        """Of the changed jobs, only those in ``blocked`` are still blocked. These have to be looked at."""
        with self._guard:
            for job in changed:
                self._remove(job)
            for one in blocked:
                self._add(one)

    def _add(self, one: Blocked) -> None:
        self.by_id[one.job] = one
        if one.begin_at is not None:
            self._begin_times[one.job] = one.begin_at
        for known, other in self._places(one):
            known.setdefault(other, set()).add(one.job)
        if one.shown is not None:
            self._due.jobs.add(one.job)
        if one.by_index is not None and not one.by_index.is_known:
            self._due.arrays.add(one.job)

    def _remove(self, job: int) -> None:
        self._begin_times.pop(job, None)
        known = self.by_id.pop(job, None)
        for table, other in () if known is None else self._places(known):
            waiting = table.get(other, set())
            waiting.discard(job)
            if not waiting:
                table.pop(other, None)
                self._forget(job_in(other))
        self._leave(job)

    def _forget(self, array: int) -> None:
        for told in self._told.values():
            told.discard(array)
        self._cancelled.pop(array, None)

    def _leave(self, job: int) -> None:
        before = self._before.pop(job, None)
        if before is not None and (behind := self._behind.get(before)) is not None:
            behind.discard(job)
            if not behind:
                del self._behind[before]

    def _places(self, one: Blocked) -> Iterable[tuple[dict[Awaited, set[int]], Awaited]]:
        """The tables that know for what a job waits, and under what."""
        for dependency in one.depends_on:
            for name in named_jobs([dependency], one.task):
                if dependency.type == BY_INDEX and one.by_index is not None:
                    yield self._by_index, name  # type: ignore[misc]  # an array's name is its id
                    continue
                yield self._waiting_for, name
                if dependency.type == "after" and isinstance(name, int):
                    yield self._for_begin, name  # type: ignore[misc]  # ids are names, too
                if isinstance(name, str):
                    yield self._for_tasks_of, job_in(name)  # type: ignore[misc]  # ids are names, too

    # --- what has changed ---------------------------------------------------------------------------------------

    def note(self, changed: Sequence[ChangedJob]) -> None:
        """Note which jobs have to be looked at after these changes."""
        if not self.by_id:
            return
        with self._guard:
            for one in changed:
                self._note(one)

    def _note(self, one: ChangedJob) -> None:
        due = self._due
        if one.id in self._behind:
            due.jobs |= self._behind[one.id]
        if one.id in self._by_index:
            due.arrays |= self._by_index[one.id]
        if one.state != State.PENDING:
            due.jobs |= self._waiting_for.get(one.id, set()) | self._for_tasks_of.get(one.id, set())
        elif self._cancelled.get(one.id, 0) != one.cancelled and self._awaits(one.id):
            self._cancelled[one.id] = one.cancelled
            due.jobs |= self._for_tasks_of.get(one.id, set())
            self._note_spoilt(one.id)
        if one.array_job is not None and one.array_task is not None:
            self._note_task(one.array_job, one.array_task, one.state)

    def _awaits(self, array: int) -> bool:
        return array in self._waiting_for or array in self._for_tasks_of

    def _note_task(self, array: int, task: int, state: str) -> None:
        if state == State.PENDING:
            self._told[_BEGUN].discard(array)
            return
        self._due.jobs |= self._waiting_for.get(f"{array}_{task}", set())
        if state in ENDED_BADLY:
            self._note_spoilt(array)
        if array in self._for_begin and array not in self._told[_BEGUN]:
            self._due.begun.add(array)
        for waiting in self._by_index.get(array, ()):
            self._due.tasks.setdefault(waiting, set()).add(task)

    def _note_spoilt(self, array: int) -> None:
        """The array can't complete any more. This concerns the jobs that wait for it once."""
        if array in self._waiting_for and array not in self._told[_SPOILT]:
            self._told[_SPOILT].add(array)
            self._due.jobs |= self._waiting_for[array]

    def begun(self, arrays: Iterable[int]) -> set[int]:
        """Note that all tasks of these arrays have begun; returns the jobs that wait for that."""
        with self._guard:
            self._told[_BEGUN].update(arrays)
            return {job for array in arrays for job in self._for_begin.get(array, ())}

    def look_at_all(self) -> None:
        """Look at all of them again, at the next opportunity."""
        with self._guard:
            self._due.jobs |= {job for job, one in self.by_id.items() if one.shown is not None}
            self._due.arrays |= {job for job, one in self.by_id.items() if one.by_index is not None}

    def take_due(self, now: float) -> Due:
        """What has to be looked at; it is not due any more."""
        with self._guard:
            due, self._due = self._due, Due()
            due.jobs |= {job for job, begin_at in self._begin_times.items() if begin_at <= now}
            return due

    def put_back(self, due: Due) -> None:
        """Look at this again: it could not be finished."""
        with self._guard:
            self._due.add(due)

    def of(self, jobs: Iterable[int]) -> dict[int, Blocked]:
        """Those of these jobs that are blocked, by id."""
        return {job: one for job in jobs if (one := self.by_id.get(job)) is not None and one.shown is not None}

    def arrays_of(self, jobs: Iterable[int]) -> dict[int, Blocked]:
        """Those of these jobs that are arrays that wait by index."""
        return {job: one for job in jobs if (one := self.by_id.get(job)) is not None and one.by_index is not None}

    def waiting_for(self, names: Iterable[Awaited]) -> list[Blocked]:
        """The jobs that wait for one of these."""
        with self._guard:
            return list(self.of(job for name in names for job in self._waiting_for.get(name, ())).values())

    def note_predecessors(self, before: Mapping[int, int]) -> None:
        """Of jobs that wait for all earlier ones of their name: the last of these that has not ended."""
        with self._guard:
            for job, other in before.items():
                self._leave(job)
                self._before[job] = other
                self._behind.setdefault(other, set()).add(job)

    def note_shown(self, jobs: Iterable[int], reason: str) -> None:
        """The records of these jobs say this now."""
        with self._guard:
            for job, one in self.of(jobs).items():
                self.by_id[job] = msgspec.structs.replace(one, shown=reason)

    def concerned(self, changed: Iterable[Awaited], now: float) -> dict[int, Blocked]:
        """The jobs that wait for one of the ``changed`` jobs, or whose begin time has come, by id."""
        with self._guard:
            jobs = {job for other in changed for job in self._waiting_for.get(other, ())}
            jobs |= {job for job, begin_at in self._begin_times.items() if begin_at <= now}
            return self.of(jobs)

    def next_begin(self, now: float) -> float | None:
        """The earliest begin time in the future (UTC seconds); None if there is none."""
        with self._guard:
            return min((begin_at for begin_at in self._begin_times.values() if begin_at > now), default=None)
