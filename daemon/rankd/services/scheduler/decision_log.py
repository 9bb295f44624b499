"""Commits the decisions of cycles, and remembers what is stored, so that only changes are written."""

from __future__ import annotations

from rankd.services.scheduler.decision import Decision
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.allocation import commit_allocations, last_cycle, save_reasons, save_reservations
from rankd.store.record.wait_part import save_spells


class DecisionLog:
    """The decisions of a scheduler that holds ``role``."""

    def __init__(self, database: Database, role: str) -> None:
        self.cycle = 0
        """The last cycle that was committed; 0 if this process has committed none yet."""
        self._database = database
        self._role = role
        self._last: Decision | None = None

    async def commit(self, decision: Decision, now: float) -> int | None:
        """Write the changes; returns how many jobs were allocated, None if there was nothing to write.

        Raises:
            RoleLost: another instance has taken the role.
            Unavailable: nothing was written.
        """
        before = self._last
        has_new_reasons = before is None or decision.reasons != before.reasons
        has_new_reservations = before is None or decision.reservations != before.reservations
        if not decision.allocations and not has_new_reasons and not has_new_reservations:
            return None
        cycle = await self._next_cycle()

        def write(connection: Connection) -> int:
            if has_new_reasons:
                known = None if before is None else before.reasons
                gone, new = save_reasons(connection, decision.reasons, known)
                save_spells(connection, new, None if known is None else gone, now)
            if has_new_reservations:
                save_reservations(connection, decision.reservations, cycle, now)
            return commit_allocations(connection, decision.allocations, cycle, now)

        started = await self._database.write(write, role=self._role)
        self._last = decision
        return started

    async def _next_cycle(self) -> int:
        if not self.cycle:
            self.cycle = await self._database.read(last_cycle)
        self.cycle += 1
        return self.cycle
