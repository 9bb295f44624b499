"""The statistics of a simulation: waiting times, slowdowns, use, and how fair the schedule was.

Sources: bounded slowdown: Feitelson and Rudolph, JSSPP 1998; Jain's index: Jain, Chiu and Hawe, DEC-TR-301, 1984.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from rankd.core.fairshare.algorithm import compute
from rankd.core.model.setting import FairshareSettings
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.core.simulate.population import Population
from rankd.core.simulate.trace import LeftOut

BOUND_S = 10.0
"""Run times below this count as this, in the bounded slowdown."""

SIZE_CLASSES = (1, 4, 16, 64, 256)
"""The largest number of processors of each size class but the last."""
RUN_CLASSES_S = (60.0, 600.0, 3600.0, 4 * 3600.0, 86400.0)
"""The longest run time of each class but the last, in seconds."""


class GroupStatistic(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a user, of an account, or of a class. ``processor_s``: processors times run time."""

    name: str
    jobs: int
    processor_s: float
    mean_wait_s: float
    p95_wait_s: float
    mean_bounded_slowdown: float


class PartitionStatistic(GroupStatistic, frozen=True, kw_only=True):
    """The jobs of a partition. ``utilisation``: of its ``processors``, over the makespan of all jobs."""

    processors: int
    utilisation: float


class ShareStatistic(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the machine that an account was promised by its shares, and the part of all use that it had."""

    account: str
    promised: float
    received: float


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that started later than under plain first come, first served, and by how much."""

    jobs: int
    mean_s: float
    max_s: float


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """``jain_slowdown``: Jain's index of the users' mean bounded slowdowns; 1 if all are equal."""

    jain_slowdown: float | None
    shares: list[ShareStatistic]
    later_than_fcfs: Later | None


class Statistic(msgspec.Struct, frozen=True, kw_only=True):
    """All statistics. They are None if no job was simulated."""

    jobs: int
    left_out: LeftOut
    makespan_s: float | None = None
    utilisation: float | None = None
    mean_wait_s: float | None = None
    p50_wait_s: float | None = None
    p90_wait_s: float | None = None
    p95_wait_s: float | None = None
    p99_wait_s: float | None = None
    mean_bounded_slowdown: float | None = None
    p95_bounded_slowdown: float | None = None
    max_bounded_slowdown: float | None = None
    never_started: int = 0
    by_partition: list[PartitionStatistic] = []
    by_user: list[GroupStatistic] = []
    by_account: list[GroupStatistic] = []
    by_size: list[GroupStatistic] = []
    by_run_time: list[GroupStatistic] = []
    fairness: Fairness | None = None


def statistic(
    work: Population,
    starts_s: FloatArray,
    left_out: LeftOut,
    machine: Sequence[tuple[str, int]],
    fairshare: FairshareSettings,
    fcfs_starts_s: FloatArray | None,
) -> Statistic:
    """The statistics of the jobs that started. ``starts_s``: NaN for the others.

    ``machine``: the partitions, with the processors of each.
    """
    started = np.flatnonzero(~np.isnan(starts_s))
    never = len(starts_s) - len(started)
    if not len(started):
        return Statistic(jobs=0, left_out=left_out, never_started=never)
    own = _Columns(work, starts_s, started)
    p50, p90, p95, p99 = _percentiles(own.waits_s, 50, 90, 95, 99)
    makespan_s = float(own.ends_s.max() - own.submits_s.min())
    return Statistic(
        jobs=len(started),
        left_out=left_out,
        makespan_s=makespan_s,
        utilisation=float(own.processor_s.sum() / (sum(size for _, size in machine) * makespan_s)),
        mean_wait_s=float(own.waits_s.mean()),
        p50_wait_s=p50,
        p90_wait_s=p90,
        p95_wait_s=p95,
        p99_wait_s=p99,
        mean_bounded_slowdown=float(own.slowdowns.mean()),
        p95_bounded_slowdown=_percentiles(own.slowdowns, 95)[0],
        max_bounded_slowdown=float(own.slowdowns.max()),
        never_started=never,
        by_partition=own.by_partition(work.columns.partitions[started], machine, makespan_s),
        by_user=own.by_name([work.jobs[place].user for place in started.tolist()]),
        by_account=own.by_name([work.accounts[place] for place in started.tolist()]),
        by_size=own.by_class(own.processors, SIZE_CLASSES, _size_names()),
        by_run_time=own.by_class(own.runs_s, RUN_CLASSES_S, _run_names()),
        fairness=Fairness(
            jain_slowdown=own.jain([work.jobs[place].user for place in started.tolist()]),
            shares=_shares(work, own, started, fairshare),
            later_than_fcfs=None if fcfs_starts_s is None else _later(starts_s, fcfs_starts_s),
        ),
    )


class _Columns:
    """The jobs that started, as columns of float64 (n,)."""

    def __init__(self, work: Population, starts_s: FloatArray, started: IntArray) -> None:
        self.submits_s = work.columns.submitted_at[started]
        self.runs_s = work.runs_s[started]
        self.processors = work.processors[started]
        self.waits_s = starts_s[started] - self.submits_s
        self.ends_s = starts_s[started] + self.runs_s
        self.processor_s = self.processors * self.runs_s
        self.slowdowns = bounded_slowdowns(self.waits_s, self.runs_s)

    def by_name(self, names: Sequence[str]) -> list[GroupStatistic]:
        known = sorted(set(names))
        numbers = {name: number for number, name in enumerate(known)}
        return self._by(np.array([numbers[name] for name in names], dtype=np.int64), known)

    def by_class(
        self, values: FloatArray | IntArray, bounds: Sequence[float], names: Sequence[str]
    ) -> list[GroupStatistic]:
        return self._by(np.searchsorted(np.array(bounds), values, side="left"), names)

    def by_partition(
        self, numbers: IntArray, machine: Sequence[tuple[str, int]], makespan_s: float
    ) -> list[PartitionStatistic]:
        sizes = dict(machine)
        return [
            PartitionStatistic(
                **{name: getattr(found, name) for name in GroupStatistic.__struct_fields__},
                processors=sizes[found.name],
                utilisation=found.processor_s / (sizes[found.name] * makespan_s),
            )
            for found in self._by(numbers, [name for name, _ in machine])
        ]

    def _by(self, groups: IntArray, names: Sequence[str]) -> list[GroupStatistic]:
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1)).tolist()
        parts = np.split(order, starts[1:])
        return [self._of(names[int(groups[part[0]])], part) for part in parts]

    def _of(self, name: str, part: IntArray) -> GroupStatistic:
        return GroupStatistic(
            name=name,
            jobs=len(part),
            processor_s=float(self.processor_s[part].sum()),
            mean_wait_s=float(self.waits_s[part].mean()),
            p95_wait_s=_percentiles(self.waits_s[part], 95)[0],
            mean_bounded_slowdown=float(self.slowdowns[part].mean()),
        )

    def jain(self, users: Sequence[str]) -> float:
        means = np.array([group.mean_bounded_slowdown for group in self.by_name(users)])
        return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def bounded_slowdowns(waits_s: FloatArray, runs_s: FloatArray) -> FloatArray:
    """max(1, (wait + run) / max(run, 10 s)), float64 (n,)."""
    found: FloatArray = np.maximum(1.0, (waits_s + runs_s) / np.maximum(runs_s, BOUND_S))
    return found


def _percentiles(values: FloatArray, *which: float) -> list[float]:
    """Percentiles, by linear interpolation."""
    found: list[float] = np.percentile(values, which).tolist()
    return found


def _shares(work: Population, own: _Columns, started: IntArray, fairshare: FairshareSettings) -> list[ShareStatistic]:
    """The accounts with jobs. ``promised`` is the part of the whole tree."""
    promised = compute(work.tree, np.zeros(work.tree.n_users), fairshare).shares_norm
    received: dict[str, float] = {}
    for place, amount in zip(started.tolist(), own.processor_s.tolist(), strict=True):
        received[work.accounts[place]] = received.get(work.accounts[place], 0.0) + amount
    total = float(own.processor_s.sum())
    return [
        ShareStatistic(
            account=account,
            promised=float(promised[work.tree.account_nodes[account]]),
            received=received[account] / total,
        )
        for account in sorted(received)
    ]


def _later(starts_s: FloatArray, fcfs_starts_s: FloatArray) -> Later:
    delays_s = starts_s - fcfs_starts_s
    late = delays_s[delays_s > 0]
    if not len(late):
        return Later(jobs=0, mean_s=0.0, max_s=0.0)
    return Later(jobs=len(late), mean_s=float(late.mean()), max_s=float(late.max()))


def _size_names() -> list[str]:
    lows = [1, *(bound + 1 for bound in SIZE_CLASSES)]
    named = [f"{low}-{high}" if low < high else str(high) for low, high in zip(lows, SIZE_CLASSES, strict=False)]
    return [*named, f"{lows[-1]} or more"]


def _run_names() -> list[str]:
    return ["up to 1 min", "up to 10 min", "up to 1 h", "up to 4 h", "up to 1 d", "longer"]
