"""A cycle of all partitions, from the scheduler's memory to the rows of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.placement.problem import Reservation
from rankd.mirror.reason_rows import ReasonRows
from rankd.services.runtime.statistic import SchedulerStatistic
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.record.allocation import NewAllocation, ReasonRow, ReservationRow


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle of all partitions decided, as rows of the records."""

    allocations: list[NewAllocation]
    reasons: frozenset[ReasonRow]
    reservations: tuple[ReservationRow, ...]

    def next_start_after(self, now: float) -> float:
        """When the next reserved job may start; infinite if there is none."""
        return min((row.starts_at for row in self.reservations if row.starts_at > now), default=float("inf"))


class Decider:
    """Runs cycles on a memory. ``policies`` sort nodes; they are keyed by name."""

    def __init__(
        self, source: SchedulingSource, policies: Mapping[str, NodeSortPolicy], statistic: SchedulerStatistic
    ) -> None:
        self.policies = policies
        self._source = source
        self._reasons = ReasonRows(source.pending.known_kinds)
        self._statistic = statistic

    def prepare(self, now: float) -> None:
        """Update the cycles' memories in advance, which makes the next cycle faster."""
        for problem in self._source.problems(now):
            self._source.memory(problem).update(problem)

    def decide(self, now: float) -> Decision:
        """Run the cycle of each partition."""
        source = self._source
        problems = source.problems(now)
        memories = [source.memory(problem) for problem in problems]
        outcomes = [
            run_cycle(problem, self.policies[problem.node_sort.type], memory)
            for problem, memory in zip(problems, memories, strict=True)
        ]
        self._statistic.decided(
            looked_at=sum(outcome.looked_at for outcome in outcomes),
            backfilled=sum(outcome.backfilled for outcome in outcomes),
            reserved=sum(len(outcome.reservations) for outcome in outcomes),
        )
        placed = [placement for outcome in outcomes for placement in outcome.placements]
        return Decision(
            allocations=source.placed_jobs().allocations(placed),
            reasons=self._reasons.of(outcomes, [memory.partition for memory in memories]),
            reservations=_first_of_each([made for outcome in outcomes for made in outcome.reservations]),
        )


def _first_of_each(made: Sequence[Reservation]) -> tuple[ReservationRow, ...]:
    """The rows of reservations. An array may have several; its row is the one of its first task."""
    rows: dict[int, ReservationRow] = {}
    for one in made:
        rows.setdefault(one.job, ReservationRow(job=one.job, nodes=one.nodes, starts_at=one.starts_at))
    return tuple(rows.values())
