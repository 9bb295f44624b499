"""Which blocked jobs get reservations, and which jobs may be tried after them: ``scheduling.backfill``."""

from __future__ import annotations

from rankd.core.model.reason_code import RESERVED, RESOURCES
from rankd.core.model.setting import SchedulingSettings
from rankd.core.placement.problem import PartitionProblem


class BackfillRule:
    """The rule during one cycle. The cycle reports reservations and blocked jobs."""

    def __init__(self, problem: PartitionProblem) -> None:
        self.ahead: int | None = None
        """With ``strict``, the first blocked job: no job may start any more."""
        self._problem = problem
        self._n_reserved = 0
        self._of_job: dict[int, int] = {}

    @property
    def is_strict(self) -> bool:
        """Whether no job may pass a blocked one."""
        return self._problem.backfill == "strict"

    @property
    def is_over(self) -> bool:
        """Whether no further job may start, and nobody asks why."""
        return self.ahead is not None and not self._problem.explain and not self._problem.each

    @property
    def is_by_limit(self) -> bool:
        """Whether the jobs behind the reserved ones are tried in the order of their time limits."""
        return self._problem.backfill == "easy" and self._problem.backfill_order == "shortest"

    def may_reserve(self) -> bool:
        """Whether the next blocked job may get a reservation."""
        match self._problem.backfill:
            case "none":
                return False
            case "conservative":
                return True
            case "strict":
                return self.ahead is None
            case _:
                return self._n_reserved < self._problem.reserve_depth

    def may_reserve_task(self, job: int, room: int | None) -> bool:
        """Whether another task of the same array may get a reservation. ``room``: how many more of them may start."""
        most = self._problem.array_reserve if room is None else min(room, self._problem.array_reserve)
        return self._problem.backfill == "conservative" and self._of_job.get(job, 0) < most

    def on_reserved(self, job: int) -> None:
        """A job, or a task of an array, has got a reservation."""
        self._n_reserved += 1
        self._of_job[job] = self._of_job.get(job, 0) + 1

    def on_blocked(self, job: int, code: str) -> None:
        """A job can't start, for the reason with this code."""
        if self.is_strict and self.ahead is None and code in (RESOURCES, RESERVED):
            self.ahead = job


def useless_order(scheduling: SchedulingSettings) -> str | None:
    """Why ``backfill_order`` has no effect, as a message; None if it has one."""
    if scheduling.backfill_order == "rank" or scheduling.backfill == "easy":
        return None
    return f'it has no effect with backfill "{scheduling.backfill}"; use it with "easy", or leave it out'
