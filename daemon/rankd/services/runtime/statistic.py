"""Counts and durations that a service keeps about itself, in memory. Each costs a few hundred nanoseconds."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from rankd.core.metric.figure import Histogram
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.staleness import Staleness
from rankd.store.record.generation import Header
from rankd.wire.diag import ConfigurationDiag, PrioritizerDiag, SchedulerDiag, Spread

KEPT = 1_000
"""This many durations of each phase are kept."""


class Durations:
    """The latest durations by phase, and for ``/metrics`` how many there were since the start, by length."""

    def __init__(self) -> None:
        self._of: dict[str, deque[float]] = {}
        self.histograms: dict[str, Histogram] = {}

    def add(self, phase: str, seconds: float) -> None:
        """Add a duration."""
        self._of.setdefault(phase, deque(maxlen=KEPT)).append(seconds)
        self.histograms.setdefault(phase, Histogram()).add(seconds)

    def spreads(self) -> dict[str, Spread]:
        """The spread of the durations of each phase."""
        return {phase: spread(seconds) for phase, seconds in self._of.items()}


def spread(seconds: Iterable[float]) -> Spread:
    """Percentiles of at least one duration. A percentile is the smallest duration that this many per cent don't exceed.

    >>> spread([0.2, 0.1, 0.4, 0.3])
    Spread(n=4, median=0.2, p90=0.4, p99=0.4, worst=0.4)
    """
    ordered = sorted(seconds)

    def at(percent: int) -> float:
        return ordered[-(-len(ordered) * percent // 100) - 1]

    return Spread(n=len(ordered), median=at(50), p90=at(90), p99=at(99), worst=ordered[-1])


class SchedulerStatistic:
    """What ``rankd diag`` shows about the scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.durations = Durations()
        self.stale = 0
        self._started_at = self._clock()
        self._triggers: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._last: Mapping[str, int] = {}
        self._deepest = 0
        self._cycle_at: float | None = None

    def cycle(self, triggers: Iterable[str], now: float) -> None:
        """Note that a cycle begins, for these reasons."""
        self._triggers.update(triggers)
        self._sums["cycles"] += 1
        self._cycle_at = now

    def started(self, jobs: int) -> None:
        """Note that this many jobs were allocated."""
        self._sums["started"] += jobs

    def decided(self, *, looked_at: int, backfilled: int, reserved: int) -> None:
        """Note the results of a cycle."""
        self._sums["backfilled"] += backfilled
        self._last = {"reserved": reserved, "looked_at": looked_at}
        self._deepest = max(self._deepest, looked_at)

    def shown(self, generation: int, staleness: Staleness, now: float) -> SchedulerDiag:
        """All counts, as a message."""
        return SchedulerDiag(
            pid=os.getpid(),
            started_at=self._started_at,
            cycles=self._sums["cycles"],
            triggers=dict(self._triggers),
            durations=self.durations.spreads(),
            started=self._sums["started"],
            backfilled=self._sums["backfilled"],
            reserved=self._last.get("reserved", 0),
            looked_at=self._last.get("looked_at", 0),
            deepest=self._deepest,
            last_cycle_at=self._cycle_at,
            generation=generation,
            generation_age_s=staleness.age_s(now),
            is_stale=staleness.is_stale,
            stale=self.stale,
        )


class PrioritizerStatistic:
    """What ``rankd diag`` shows about the prioritizer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest: Header | None = None
        self._pass_at: float | None = None
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.durations = Durations()
        self._started_at = self._clock()
        self._made: Counter[str] = Counter()

    def made(self, header: Header) -> None:
        """Note that a generation is visible."""
        self._made[header.kind] += 1
        self._newest = header
        if header.kind == "full":
            self._pass_at = header.ranked_at
            self.durations.add("full.visible", max(header.made_at - header.ranked_at, 0.0))
        for phase, seconds in header.durations.items():
            self.durations.add(f"{header.kind}.{phase}", seconds)

    def shown(self, configuration: ConfigurationDiag) -> PrioritizerDiag:
        """All counts, as a message."""
        newest = self._newest
        return PrioritizerDiag(
            pid=os.getpid(),
            started_at=self._started_at,
            passes=self._made["full"],
            deltas=self._made["delta"],
            durations=self.durations.spreads(),
            generation=0 if newest is None else newest.number,
            jobs=0 if newest is None else newest.jobs,
            last_pass_at=self._pass_at,
            failing={} if newest is None else newest.failures,
            configuration=configuration,
        )
