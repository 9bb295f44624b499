"""Which pending jobs of a document are eligible and since when, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from rankd.core.admission.dependency import Awaited, Blocked, ByIndex, Progress, awaited, blocked_by
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.document import Id, JobEntry
from rankd.core.model.index_set import EMPTY, IndexSet, common, count, of, parse, union, without
from rankd.core.model.job import (
    BY_INDEX,
    FINAL_STATES,
    SINGLETON,
    URGENCY_HOLD,
    Dependency,
    State,
    name_of,
)

HELD = "held"
NOT_ELIGIBLE = "not eligible"

Verdict = float | str
"""The time (UTC seconds) since which a job is eligible, or the reason why it is not."""

_ACTIVE = frozenset(State) - FINAL_STATES


class Judged(NamedTuple):
    """A verdict for each pending job; and of arrays that wait by index, the tasks that may start, by number."""

    verdicts: list[Verdict]
    eligible_tasks: dict[int, IndexSet]


def judge(pending: Sequence[Job], entries: Sequence[JobEntry], now: float) -> Judged:
    """A verdict for each pending job. Of several reasons, the first one that applies."""
    judge_ = _Judge(entries if any(job.entry.depends_on for job in pending) else [], now)
    return Judged([judge_.verdict(job) for job in pending], judge_.eligible_tasks)


def submitted_at(entry: JobEntry, now: float) -> float:
    """When a job was submitted (UTC seconds). The default is now."""
    return now if entry.submitted_at is None else entry.submitted_at


class _Judge:
    """The jobs of a document, as those see them that wait for them. A job counts as submitted before those after it."""

    def __init__(self, entries: Sequence[JobEntry], now: float) -> None:
        self.eligible_tasks: dict[int, IndexSet] = {}
        self._now = now
        self._progress = {entry.id: _progress(entry) for entry in entries}
        self._tasks: dict[Id, dict[int, Progress]] = {}
        self._first_of_name: dict[tuple[str | None, str], int] = {}
        self._places = {entry.id: place for place, entry in enumerate(entries)}
        for place, entry in enumerate(entries):
            if entry.array_job is not None and entry.array_task is not None:
                self._tasks.setdefault(entry.array_job, {})[entry.array_task] = self._progress[entry.id]
            if entry.state in _ACTIVE:
                self._first_of_name.setdefault((entry.user, _name(entry)), self._order(entry, place))

    def _order(self, entry: JobEntry, place: int) -> int:
        """The place of a job, or of a task's array, among all jobs."""
        return place if entry.array_job is None else self._places.get(entry.array_job, place)

    def verdict(self, job: Job) -> Verdict:
        """When the job became eligible, or why it is not."""
        entry = job.entry
        if entry.held or entry.urgency == URGENCY_HOLD:
            return HELD
        if (entry.depends_on or entry.begin_at is not None) and (reason := self._reason(job)):
            return reason
        since = entry.eligible_at
        if since is UNSET:
            since = max(submitted_at(entry, self._now), entry.begin_at or 0.0)
        return NOT_ELIGIBLE if since is None or since > self._now else since

    def _reason(self, job: Job) -> str | None:
        entry = job.entry
        places = range(1, len(entry.depends_on) + 1)  # in place of ids, which may be any text here
        numbered = [
            Dependency(type=one.type, job=None if one.type == SINGLETON else place)
            for place, one in zip(places, entry.depends_on, strict=True)
        ]
        progress: dict[Awaited, Progress] = {}
        for one, given in zip(numbered, entry.depends_on, strict=True):
            name, found = awaited(one, entry.array_task), self._found(given, entry.array_task)
            if name is not None and found is not None:
                progress[name] = found
        blocked = Blocked(
            job=job.number,
            held=False,
            begin_at=entry.begin_at,
            depends_on=tuple(numbered),
            task=entry.array_task,
            by_index=self._by_index(job),
        )
        return blocked_by(blocked, progress, self._now, self._before(job))

    def _found(self, dependency: Dependency, task: int | None) -> Progress | None:
        """The progress of what this dependency of a job, or of a task with this index, names."""
        if dependency.job is None:
            return None
        if dependency.type == BY_INDEX and task is not None:
            return self._task(dependency.job, task)
        if dependency.job in self._progress:
            found = self._progress[dependency.job]
            is_spoilt = any(_is_unmet(one.state) for one in self._tasks.get(dependency.job, {}).values())
            return Progress(found.state, found.has_begun, is_spoilt)
        array, _, index = str(dependency.job).rpartition("_")
        if not index.isdecimal():
            return None
        return self._task(int(array) if array.isdecimal() else array, int(index))

    def _task(self, array: Id, index: int) -> Progress | None:
        """A task: its own entry, else as its array is."""
        return self._tasks.get(array, {}).get(index, self._progress.get(array))

    def _by_index(self, job: Job) -> ByIndex | None:
        others = [one.job for one in job.entry.depends_on if one.type == BY_INDEX and one.job is not None]
        if job.array is None or not others:
            return None
        own, given = job.array.indices, job.entry.eligible_tasks
        eligible = own if given is None else common(own, parse(given)) if given else EMPTY
        unmet: IndexSet = EMPTY
        for other in others:
            ended = {state: self._ended(other, own, state) for state in (True, False)}
            unmet = union(unmet, ended[False])
            eligible = common(eligible, ended[True]) if given is None else eligible
        eligible = without(eligible, unmet)
        self.eligible_tasks[job.number] = eligible
        return ByIndex(tasks=count(own), eligible=count(eligible), unmet=count(without(unmet, eligible)))

    def _ended(self, array: Id, wanted: IndexSet, has_completed: bool) -> IndexSet:
        """Those of the tasks of an array that have completed, or that have ended otherwise."""
        tasks, whole = self._tasks.get(array, {}), self._progress.get(array)
        own = of(task for task, one in tasks.items() if _has_ended(one.state, completed=has_completed))
        if whole is not None and _has_ended(whole.state, completed=has_completed):
            own = union(own, without(wanted, of(tasks)))
        return common(own, wanted)

    def _before(self, job: Job) -> dict[int, int]:
        """The job itself, if an earlier job of the same user and name has not ended."""
        entry = job.entry
        first = self._first_of_name.get((entry.user, _name(entry)))
        own = self._order(entry, self._places.get(entry.id, 0))
        return {} if first is None or first >= own else {job.number: first}


def _name(entry: JobEntry) -> str:
    return name_of(entry) if entry.name or entry.command else ""


def _is_unmet(state: State) -> bool:
    return _has_ended(state, completed=False)


def _has_ended(state: State, *, completed: bool) -> bool:
    return state is State.COMPLETED if completed else state in FINAL_STATES and state is not State.COMPLETED


def _progress(entry: JobEntry) -> Progress:
    return Progress(entry.state, entry.state is State.RUNNING or entry.started_at is not None)
