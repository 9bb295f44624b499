"""Who becomes eligible: jobs whose dependencies are met and whose time has come, applications that have aged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from rankd.core.admission.dependency import BEGIN_TIME, Blocked, blocked_by
from rankd.core.change.job_change import Change
from rankd.core.model.job import Event, State
from rankd.mirror.job_table import JobTable
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.application import follow, overdue_applications
from rankd.store.record.dependency import progress_of, still_blocked
from rankd.store.record.job import apply_changes, read_states


class Eligibility:
    """Releases what is blocked, in the name of ``role``."""

    def __init__(self, jobs: JobTable, database: Database, role: str) -> None:
        self._jobs = jobs
        self._database = database
        self._role = role
        self._only_early: set[int] = set()

    async def age_applications(self, now: float) -> None:
        """Applications that have been starting run, those that have been completing are over."""
        overdue = await self._database.read_at_once(lambda c: overdue_applications(c, now))
        if overdue:
            events = {id_: [event] for id_, event in overdue.items()}
            await self._database.write(lambda c: follow(c, events, now), role=self._role)

    async def release(self, now: float) -> bool:
        """Make every job eligible that nothing keeps any more; whether there was one."""
        return await self._release(dict(self._jobs.blocked), now)

    async def release_after(self, changed: Iterable[int], now: float) -> bool:
        """As :meth:`release`, but only those that wait for one of these jobs, or for a time that has come."""
        waiting = self._jobs.waiting_for
        asked = {job for other in changed for job in waiting.get(other, ())}
        asked |= {job for job, begin in self._jobs.begins.items() if begin <= now}
        blocked = {job: self._jobs.blocked[job] for job in asked if job in self._jobs.blocked}
        return await self._release(blocked, now)

    async def _release(self, blocked: Mapping[int, Blocked], now: float) -> bool:
        if not blocked:
            return False
        seen, wanted = self._jobs.revision, {d for why in blocked.values() for d in why.depends_on}
        progress = await self._database.read_at_once(lambda c: progress_of(c, wanted))
        verdicts = {job: blocked_by(why, progress, now) for job, why in blocked.items()}
        free = [job for job, reason in verdicts.items() if reason is None]
        if free:
            await self._database.write(lambda c: _make_eligible(c, free, self._role, now, seen), role=self._role)
        early = {job for job, reason in verdicts.items() if reason == BEGIN_TIME}
        await self._name_begin_times(early - self._only_early)
        self._only_early = (self._only_early - verdicts.keys()) | early
        return bool(free)

    async def _name_begin_times(self, new: set[int]) -> None:
        """Jobs whose dependencies are met and whose begin time is to come say so; that is no event of theirs."""
        if new:
            sql = (
                "UPDATE jobs SET blocked_by = ? WHERE blocked_by IS NOT NULL AND id IN (SELECT value FROM json_each(?))"
            )
            values = (BEGIN_TIME, json.dumps(sorted(new)))
            await self._database.write(lambda c: c.exec_driver_sql(sql, values), role=self._role)


def _make_eligible(connection: Connection, jobs: Sequence[int], actor: str, now: float, seen: int) -> None:
    """``seen``: the last event that the decision knows of; a job that was updated since may have to wait on."""
    waiting = still_blocked(connection, jobs, seen, now)
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
