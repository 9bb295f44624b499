"""All partitions run forward from the live state, event by event, by the scheduler's own cycles.

At each instant, first all jobs end that end then, then jobs become eligible whose time has come or whose awaited jobs
have begun or ended. After that each partition in which anything happened has one scheduling cycle. Nothing else
decides. No job is submitted: later arrivals are not assumed. Jobs keep the order of the present ranking, and a job
that becomes eligible comes behind it. Pure: the same input gives the same result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from rankd.core.forecast.live import Live, OpenWork
from rankd.core.forecast.partition_run import PartitionRun, parts_of

Pace = Literal["early", "late"]


class ForecastRun:
    """:meth:`instants` goes forward; ``starts`` has the first start of each job so far, UTC seconds.

    ``pace``: ``late`` if all jobs use up their time limits; ``early`` if each uses its expected share of it.
    """

    def __init__(self, live: Live, pace: Pace) -> None:
        self._live = live
        self._pace = pace
        self.starts: dict[int, float] = {}
        self._parts: Counter[int] = Counter()
        """What has not ended of each job and array."""
        for partition in live.partitions:
            self._parts.update(parts_of(partition))
        self._runs = [PartitionRun(partition, self._ends_at, self._run_s) for partition in live.partitions]
        self._begun = {work.job for own in live.partitions for work in own.running}
        self._begun |= {work.array for own in live.partitions for work in own.running if work.array}
        self._later = [(at, one) for at, own in enumerate(live.partitions) for one in own.later]
        self._waits_for: dict[int, set[int]] = {}
        """The places in ``_later`` of the jobs that wait for each job."""
        self._left = [set(one.needs) for _, one in self._later]
        for place, (_, one) in enumerate(self._later):
            for need in one.needs:
                self._waits_for.setdefault(need.job, set()).add(place)
        self._timed: set[int] = {place for place, (_, one) in enumerate(self._later) if not one.needs}

    def instants(self, until: float = math.inf) -> Iterator[float]:
        """Go from event to event up to ``until``, and return each instant after its cycles."""
        now = self._live.now
        touched = set(range(len(self._runs)))
        while True:
            touched |= self._admit(now)
            for at in sorted(touched):
                self._decide(at, now)
            yield now
            now, touched = self._next(now)
            if now > until or math.isinf(now):
                return
            self._look(self._end(now, touched))

    @property
    def is_over(self) -> bool:
        """Whether every job has started that can start."""
        return not self._timed and not any(run.queue for run in self._runs) and not any(self._left)

    def waiting(self) -> set[int]:
        """The jobs that have not started, and that wait for nothing but room."""
        return {job for run in self._runs for job, _ in run.queue.jobs()}

    def reasons(self, now: float) -> dict[int, tuple[str, str]]:
        """Reason and fact of each job that has not started, from a cycle that explains them."""
        return {job: (reason, fact) for run in self._runs for job, reason, fact in run.reasons(now)}

    def unmet(self) -> dict[int, int]:
        """The jobs that still wait for others, each with one that it waits for."""
        return {
            self._later[place][1].job: min(need.job for need in left) for place, left in enumerate(self._left) if left
        }

    def _next(self, before: float) -> tuple[float, set[int]]:
        """The next instant, and the partitions in which anything happens by itself then.

        It may be the same instant again, if a start has let other jobs in.
        """
        times = [run.next_s for run in self._runs]
        begin_s = min((self._later[place][1].begin_at for place in self._timed), default=math.inf)
        now = max(before, min([*times, begin_s]))
        return now, {at for at, time in enumerate(times) if time <= now}

    def _end(self, now: float, touched: Iterable[int]) -> set[int]:
        """End jobs; returns those jobs and the arrays of which parts have ended."""
        ended: set[int] = set()
        for at in touched:
            for job, array in self._runs[at].end(now):
                for one in {job, array}:
                    if one in self._parts:
                        self._parts[one] -= 1
                        ended.add(one)
        return ended

    def _decide(self, at: int, now: float) -> None:
        placed = self._runs[at].decide(now)
        for one in placed:
            self.starts.setdefault(one.job, now)
        if placed:
            begun = {one.job for one in placed} - self._begun
            self._begun |= begun
            self._look(begun)

    def _look(self, changed: Iterable[int]) -> None:
        """Jobs have begun or ended: those that waited only for this, wait for their time from now on."""
        for job in changed:
            for place in tuple(self._waits_for.get(job, ())):
                self._left[place] = {need for need in self._left[place] if not self._is_met(need.job, need.until)}
                if not self._left[place]:
                    self._waits_for[job].discard(place)
                    self._timed.add(place)

    def _is_met(self, job: int, until: str) -> bool:
        """Jobs of which this run knows no part, such as held ones, never end here."""
        return self._parts.get(job, 1) <= 0 or (until == "begun" and job in self._begun)

    def _admit(self, now: float) -> set[int]:
        """Let jobs whose time has come into their queues; returns their partitions."""
        due = sorted(place for place in self._timed if self._later[place][1].begin_at <= now)
        self._timed.difference_update(due)
        for place in due:
            at, one = self._later[place]
            self._runs[at].add(one)
        return {self._later[place][0] for place in due}

    def _ends_at(self, work: OpenWork) -> float:
        share = 1.0 if self._pace == "late" else work.share
        return max(self._live.now, work.begun_at + _part(work.limit_s, share))

    def _run_s(self, job: int, limit_s: float) -> float:
        return _part(limit_s, 1.0 if self._pace == "late" else self._share(job))

    def _share(self, job: int) -> float:
        return self._live.shares.get(job, self._live.site_share)


def _part(limit_s: float, share: float) -> float:
    """A part of a limit; infinite if there is no limit."""
    return limit_s if math.isinf(limit_s) else limit_s * share
