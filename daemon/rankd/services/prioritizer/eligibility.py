"""Makes jobs eligible when their dependencies are met and their begin time has come. Updates old applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rankd.core.admission.dependency import BEGIN_TIME, Blocked, blocked_by
from rankd.core.change.job_change import Change
from rankd.core.model.job import Event, State
from rankd.mirror.job_table import JobTable
from rankd.services.prioritizer.role import ROLE
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.application import follow, overdue_applications
from rankd.store.record.dependency import progress_of, show_begin_time, still_blocked
from rankd.store.record.job import apply_changes, read_states


class Eligibility:
    """Releases blocked jobs."""

    def __init__(self, jobs: JobTable, database: Database) -> None:
        self._jobs = jobs
        self._database = database
        self._only_early: set[int] = set()

    async def age_applications(self, now: float) -> None:
        """Let applications run that have been starting long enough; end those that have been completing long enough."""
        overdue = await self._database.read(lambda c: overdue_applications(c, now))
        if overdue:
            events = {id_: [event] for id_, event in overdue.items()}
            await self._database.write(lambda c: follow(c, events, now), role=ROLE)

    async def release(self, now: float) -> bool:
        """Make every job eligible that need not wait any longer; returns whether there was one."""
        return await self._release(dict(self._jobs.blocked.by_id), now)

    async def release_after(self, changed: Iterable[int], now: float) -> bool:
        """As :meth:`release`, but only for jobs that wait for one of these, or whose begin time has come."""
        return await self._release(self._jobs.blocked.concerned(changed, now), now)

    async def _release(self, blocked: Mapping[int, Blocked], now: float) -> bool:
        if not blocked:
            return False
        revision = self._jobs.revision
        dependencies = {dependency for why in blocked.values() for dependency in why.depends_on}
        progress = await self._database.read(lambda c: progress_of(c, dependencies))
        verdicts = {job: blocked_by(why, progress, now) for job, why in blocked.items()}
        free = [job for job, reason in verdicts.items() if reason is None]
        if free:
            await self._database.write(lambda c: _make_eligible(c, free, ROLE, now, revision), role=ROLE)
        early = {job for job, reason in verdicts.items() if reason == BEGIN_TIME}
        if new := early - self._only_early:
            await self._database.write(lambda c: show_begin_time(c, new), role=ROLE)
        self._only_early = (self._only_early - verdicts.keys()) | early
        return bool(free)


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
