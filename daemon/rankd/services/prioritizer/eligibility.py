"""Makes jobs eligible when their dependencies are met and their begin time has come. Updates old applications.

Jobs that can never start are cancelled here, if they or the configuration ask for it, and with them those that wait
for them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from rankd.core.admission.dependency import NEVER, Blocked, blocked_by, named_jobs
from rankd.core.admission.unmet import doomed_jobs
from rankd.core.change.job_change import Change
from rankd.core.model.index_set import common, of, read
from rankd.core.model.job import Event, State
from rankd.mirror.blocked_jobs import Due
from rankd.mirror.job_table import JobTable
from rankd.services.prioritizer.role import ROLE
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.application import follow, overdue_applications
from rankd.store.record.array_match import Outcome, counterparts, match_tasks, outcome_of, waiting_array
from rankd.store.record.dependency import predecessors_of, progress_of, show_reason, still_blocked
from rankd.store.record.job import apply_changes, read_states
from rankd.store.record.unmet import cancel_unmet

PART = 500
"""Jobs that are changed in a transaction, and tasks that are matched in one."""
MOST_CANCELLED = 10_000
"""Jobs that are cancelled at once because they can never start. Those that wait for them follow in the next round."""


class _Look(NamedTuple):
    """Why jobs are not eligible; and of those that wait for earlier jobs of their name, the last one of these."""

    reasons: dict[int, str | None]
    before: dict[int, int]


class Eligibility:
    """Releases blocked jobs. ``cancels`` returns whether jobs are cancelled that can never start and don't say."""

    def __init__(self, jobs: JobTable, database: Database, cancels: Callable[[], bool]) -> None:
        self._jobs = jobs
        self._database = database
        self._cancels = cancels

    async def age_applications(self, now: float) -> None:
        """Let applications run that have been starting long enough; end those that have been completing long enough."""
        overdue = await self._database.read(lambda c: overdue_applications(c, now))
        if overdue:
            events = {id_: [event] for id_, event in overdue.items()}
            await self._database.write(lambda c: follow(c, events, now), role=ROLE)

    async def release(self, now: float) -> bool:
        """Look at the jobs that recent changes concern, and make those eligible that need not wait any longer.

        Returns whether a job has changed.
        """
        due = self._jobs.blocked.take_due(now)
        if not due:
            return False
        try:
            return await self._settle(due, now)
        except BaseException:
            self._jobs.blocked.put_back(due)
            raise

    async def _settle(self, due: Due, now: float) -> bool:
        has_matched = await self._match_all(due, now)
        jobs = due.jobs | await self._waiting_for_begin(due)
        has_changed = False
        for part in _parts(sorted(jobs)):
            has_changed |= await self._look_at(self._jobs.blocked.of(part), now)
        return has_matched or has_changed

    async def _waiting_for_begin(self, due: Due) -> set[int]:
        """The jobs that wait for arrays which have now begun with all their tasks."""
        if not due.begun:
            return set()
        progress = await self._database.read(lambda c: progress_of(c, due.begun))
        return self._jobs.blocked.begun(array for array in due.begun if array in progress and progress[array].has_begun)

    async def _look_at(self, blocked: Mapping[int, Blocked], now: float) -> bool:
        if not blocked:
            return False
        revision = self._jobs.revision
        found = await self._database.read(lambda c: _look(c, blocked, now))
        self._jobs.blocked.note_predecessors(found.before)
        free = [job for job, reason in found.reasons.items() if reason is None]
        for part in _parts(free):
            await self._database.write(
                partial(_make_eligible, jobs=part, actor=ROLE, now=now, revision=revision), role=ROLE
            )
        await self._show(blocked, found.reasons, now)
        never = [blocked[job] for job, reason in found.reasons.items() if reason == NEVER]
        return await self._cancel(never, now) or bool(free)

    async def _show(self, blocked: Mapping[int, Blocked], reasons: Mapping[int, str | None], now: float) -> None:
        for reason in {reason for reason in reasons.values() if reason is not None}:
            others = [job for job, found in reasons.items() if found == reason and blocked[job].shown != reason]
            for part in _parts(others):
                await self._database.write(partial(show_reason, jobs=part, reason=reason, now=now), role=ROLE)
            self._jobs.blocked.note_shown(others, reason)

    # --- jobs that can never start ------------------------------------------------------------------------------

    async def _cancel(self, never: Sequence[Blocked], now: float) -> bool:
        """Cancel those of these jobs that ask for it, and those that wait for them in the same way."""
        first = [one for one in never if self._is_cancelled(one)]
        doomed = doomed_jobs(first, self._jobs.blocked.waiting_for, self._is_cancelled) if first else iter(())
        gone = set[int]()
        for part in _parts(list(islice(doomed, MOST_CANCELLED))):
            work = partial(cancel_unmet, jobs=part, actor=ROLE, now=now, default=self._cancels())
            gone |= await self._database.write(work, role=ROLE)
        return bool(gone)

    def _is_cancelled(self, one: Blocked) -> bool:
        return self._cancels() if one.cancel_if_unmet is None else one.cancel_if_unmet

    # --- arrays that wait by index ------------------------------------------------------------------------------

    async def _match_all(self, due: Due, now: float) -> bool:
        """Let those tasks start whose counterparts have completed; returns whether an array has changed."""
        has_changed = False
        for job, one in self._jobs.blocked.arrays_of(due.arrays).items():
            has_changed |= await self._match_array(job, one, now)
        for job, one in self._jobs.blocked.arrays_of(due.tasks.keys() - due.arrays).items():
            for tasks in _parts(sorted(due.tasks[job])):
                work = partial(self._match_tasks, job=job, one=one, tasks=tasks, now=now)
                has_changed |= await self._database.write(work, role=ROLE)
        return has_changed

    async def _match_array(self, job: int, one: Blocked, now: float) -> bool:
        """Look up the counterparts of all tasks of an array. The lookup may take seconds, so it holds no lock."""
        others = counterparts(one.depends_on)

        def look(connection: Connection) -> Outcome | None:
            waiting = waiting_array(connection, job)
            return None if waiting is None else outcome_of(connection, others, read(waiting.array))

        found = await self._database.read_in_thread(look)
        if found is None:
            return False
        return await self._database.write(
            lambda c: match_tasks(c, job, found, now, expected=others, is_all=True, cancels=self._is_cancelled(one)),
            role=ROLE,
        )

    def _match_tasks(self, connection: Connection, job: int, one: Blocked, tasks: Sequence[int], now: float) -> bool:
        waiting, others = waiting_array(connection, job), counterparts(one.depends_on)
        if waiting is None:
            return False
        found = outcome_of(connection, others, common(read(waiting.array), of(tasks)))
        cancels = self._is_cancelled(one)
        return match_tasks(connection, job, found, now, expected=others, is_all=False, cancels=cancels)


def _parts(jobs: Sequence[int]) -> list[Sequence[int]]:
    return [jobs[start : start + PART] for start in range(0, len(jobs), PART)]


def _look(connection: Connection, blocked: Mapping[int, Blocked], now: float) -> _Look:
    progress = progress_of(
        connection, {name for one in blocked.values() for name in named_jobs(one.depends_on, one.task)}
    )
    before = predecessors_of(connection, [job for job, one in blocked.items() if one.is_singleton])
    return _Look({job: blocked_by(one, progress, now, before) for job, one in blocked.items()}, before)


def _make_eligible(connection: Connection, jobs: Sequence[int], actor: str, now: float, revision: int) -> None:
    """``revision``: the last event that the decision considers. A job that was updated later may still have to wait."""
    waiting = still_blocked(connection, jobs, revision, now)
    states = read_states(connection, [job for job in jobs if job not in waiting])
    changes = [
        Change(
            job=job,
            state=state.state,
            event=Event.ELIGIBLE,
            actor=actor,
            columns={"blocked_by": None, "eligible_at": None if state.held else now},
        )
        for job, state in states.items()
        if state.state is State.PENDING and state.blocked_by is not None
    ]
    apply_changes(connection, changes, now)
