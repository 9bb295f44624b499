"""The range in which each pending job will start, from an early and a late run; or why no start can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rankd.core.forecast.live import Live
from rankd.core.forecast.run import ForecastRun, Pace
from rankd.core.model.reason_code import RESERVED, RESOURCES

BEYOND = "beyond the horizon"
HELD = "held"
HELD_BACK = "application held back"
AWAITED = "dependency"
NO_LIMIT = "no time limit"

_ENDLESS = (NO_LIMIT, "jobs without a time limit hold what it needs, or are before it")

MOST_INSTANTS = 20_000
"""The most instants of a run. Each takes one cycle of each partition in which anything happened."""
SPAN_S = 366 * 86400.0
"""How far a run looks ahead."""


class StartRange(NamedTuple):
    """When a job starts, UTC seconds; of an array, its first pending task.

    ``early`` None: no start can be told, and ``reason`` and ``fact`` say why. ``late`` None: the earliest start is
    known, and ``reason`` says why the latest is not.
    """

    job: int
    early: float | None
    late: float | None
    reason: str | None = None
    fact: str = ""


class Forecast:
    """:meth:`steps` does the work in small steps; then :meth:`ranges` has the result.

    ``untold``: reason and fact of pending jobs that are not part of ``live``, because no start of theirs can be told.
    """

    def __init__(
        self, live: Live, untold: Mapping[int, tuple[str, str]] | None = None, most_instants: int = MOST_INSTANTS
    ) -> None:
        self._live = live
        self._untold = untold or {}
        self._most = most_instants
        self._early = ForecastRun(live, "early")
        self._late = ForecastRun(live, "late")
        self._cut: dict[Pace, bool] = {"early": False, "late": False}
        self._last_s = live.now
        self._is_cut = False

    def cut(self) -> None:
        """End the present run after its next step: it takes too long. Jobs without a start are beyond the horizon."""
        self._is_cut = True

    def steps(self) -> Iterator[None]:
        """Run both; each step is one instant of one of them."""
        runs: list[tuple[Pace, ForecastRun]] = [("late", self._late), ("early", self._early)]
        for pace, run in runs:
            for number, now in enumerate(run.instants(self._live.now + SPAN_S), start=1):
                yield
                if pace == "late":
                    self._last_s = now
                if run.is_over:
                    break
                if number >= self._most or self._is_cut:
                    self._cut[pace], self._is_cut = True, False
                    break

    def ranges(self) -> list[StartRange]:
        """The range of each pending job, by job."""
        jobs = {
            job
            for own in self._live.partitions
            for waiting in own.problem.waiting.values()
            for job in waiting.jobs.tolist()
        }
        jobs |= {later.job for own in self._live.partitions for later in own.later}
        why = self._reasons() if jobs - self._late.starts.keys() else {}
        found = [self._range(job, why) for job in jobs]
        found += [StartRange(job, None, None, *reason) for job, reason in self._untold.items() if job not in jobs]
        return sorted(found)

    def _range(self, job: int, why: Mapping[int, tuple[str, str]]) -> StartRange:
        early, late = self._early.starts.get(job), self._late.starts.get(job)
        if late is not None:
            early = late if early is None else early
            return StartRange(job, min(early, late), max(early, late))
        if early is None or self._cut["late"]:
            return StartRange(job, None, None, *why.get(job, (BEYOND, "")))
        return StartRange(job, early, None, *why.get(job, (BEYOND, "")))

    def _reasons(self) -> dict[int, tuple[str, str]]:
        """Why jobs have no latest start."""
        if self._cut["late"]:
            return {}
        found = {
            job: (AWAITED, f"it waits for job {other}, of which no end can be told")
            for job, other in self._late.unmet().items()
        }
        for job, (reason, fact) in self._late.reasons(self._last_s).items():
            is_endless = reason in (RESOURCES, RESERVED)  # all jobs with a limit have ended by then
            found[job] = _ENDLESS if is_endless else (reason, fact)
        return found
