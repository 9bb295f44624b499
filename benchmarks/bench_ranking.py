"""The pure pass, `core.ranking.ranking.rank`: the time of its phases, compared with copying the same bytes.

Six factors with their default weights; 5,000 associations in a tree of accounts; queues with offsets, fences and
disabled subtrees; jobs with ages, sizes, urgencies, classes and QoS as on a busy site. `copy` moves every input column
and every result array once: the time that the machine needs to touch these bytes at all.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import report

from rankd.config.plugin import load_application_sort, load_factors
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import QueueProperties
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking import ranking as pass_module
from rankd.core.ranking.columns import NO_GROUP, JobColumns
from rankd.core.ranking.order import Applications
from rankd.core.ranking.priority import INT32_MAX
from rankd.core.ranking.queue_view import QueueView
from rankd.core.ranking.ranking import Ranking, RankingState, Usage, rank

NOW = 1_700_000_000.0
WEEK = 604800.0
ASSOCIATIONS = 5_000
TOTAL = {"vcore": 200_000_000, "memory": 2**50, "gpu": 8_000}
NODES = 2_000.0
REPEATS = 7
PHASES = {"compute": "fair share", "compute_priorities": "factors, sum", "_queue_rows": "queue rows", "_order": "order"}
"""What `rank` calls, by its name in that module, and the phase that it is."""


class Case(NamedTuple):
    """The number of jobs, of queues per level below root, and of named applications (half of the jobs have one)."""

    jobs: int
    fanout: tuple[int, ...]
    applications: int

    @property
    def leaves(self) -> int:
        """The number of leaf queues."""
        return int(np.prod(self.fanout))


CASES = [
    Case(jobs, fanout, applications)
    for jobs in (10_000, 100_000, 1_000_000)
    for fanout, applications in (((20,), 0), ((10, 10, 20), 0), ((10, 10, 20), 20_000))
]


def state_of(case: Case, rng: np.random.Generator) -> RankingState:
    views = queue_views(case.fanout, rng)
    leaves = np.array([view.id for view in views if view.path.count(".") == len(case.fanout)])
    own_queues = leaves[zipf(rng, len(leaves), max(case.applications, 1))]
    return RankingState(
        jobs=job_columns(case, leaves, own_queues, rng),
        **accounts(rng),
        qos_priorities=np.array([0.0, 10.0, 50.0, 100.0]),
        qos_factors=np.array([np.nan, np.nan, np.nan, 0.25]),
        queues=[views],
        used={int(leaf): {"vcore": int(rng.integers(0, 10**6)), "gpu": 1} for leaf in leaves[::2]},
        shapes=shapes(rng),
        totals=[TOTAL],
        partition_nodes=np.array([NODES]),
        partition_cores=np.array([TOTAL["vcore"] / 1000.0]),
        applications=applications(case.applications, own_queues, rng),
    )


def queue_views(fanout: tuple[int, ...], rng: np.random.Generator) -> list[QueueView]:
    """Root first, parents before children; every tenth queue fenced, fifth with an offset, twentieth disabled."""
    views = [QueueView(id=0, path="root", parent=None, properties=QueueProperties(), effective_max=TOTAL)]
    level = views[:]
    for width in fanout:
        level = [
            queue_view(len(views) + at * width + i, above, rng) for at, above in enumerate(level) for i in range(width)
        ]
        views += level
    return views


def queue_view(id_: int, above: QueueView, rng: np.random.Generator) -> QueueView:
    properties = QueueProperties(
        priority_policy="fence" if rng.random() < 0.1 else "default",
        priority_offset=int(rng.integers(-2000, 2000)) if rng.random() < 0.2 else 0,
        sort_priority=above.properties.sort_priority and bool(rng.random() > 0.05),
        sort_policy="fair" if rng.random() < 0.1 else "fifo",
        priority_factor=float(rng.integers(1, 10)) if rng.random() < 0.5 else None,
    )
    path, guaranteed = f"{above.path}.q{id_}", {"vcore": 100_000}
    return QueueView(
        id=id_,
        path=path,
        parent=above.id,
        properties=properties,
        guaranteed=guaranteed,
        effective_max=TOTAL,
        application_sort=load_application_sort(properties.sort_policy),
    )


def job_columns(case: Case, leaves: np.ndarray, own_queues: np.ndarray, rng: np.random.Generator) -> JobColumns:
    """Nearly in order of submission; 2 % held, 1 % with a class, a few expedited or fixed."""
    n = case.jobs
    named = rng.random(n) < (0.5 if case.applications else 0.0)
    of = np.where(named, rng.integers(0, max(case.applications, 1), n), NO_GROUP)
    submitted = np.sort(NOW - rng.exponential(WEEK / 2, n)) + rng.normal(0, 0.002, n)
    eligible = submitted + np.where(rng.random(n) < 0.1, rng.exponential(3600, n), 0.0)
    shape = zipf(rng, 300, n)
    return JobColumns(
        ids=np.cumsum(rng.integers(1, 3, n)),
        associations=zipf(rng, ASSOCIATIONS, n),
        queues=np.where(named, own_queues[of], leaves[zipf(rng, len(leaves), n)]),
        qos=rng.choice(4, n, p=[0.7, 0.15, 0.1, 0.05]),
        partitions=np.zeros(n, dtype=np.int64),
        applications=of,
        class_values=np.where(rng.random(n) < 0.01, rng.choice([1000, 10_000, -500], n), 0),
        urgencies=rng.choice([16, 16, 16, 16, 12, 8, 20, 31], n, p=[0.8, 0.05, 0.03, 0.02, 0.05, 0.039, 0.01, 0.001]),
        nodes=1 + shape % 7,
        vcores=1000 * (1 + shape % 64),
        shapes=shape,
        time_limits_s=np.where(rng.random(n) < 0.8, rng.integers(1, 2880, n) * 60.0, np.nan),
        submitted_at=submitted,
        eligible_at=np.where(rng.random(n) < 0.02, np.nan, np.minimum(eligible, NOW)),
        fixed_priorities=np.where(rng.random(n) < 0.0005, 5000.0, np.nan),
    )


def zipf(rng: np.random.Generator, size: int, n: int) -> np.ndarray:
    """Indices below ``size``, a few of them frequent."""
    weights = 1.0 / np.arange(1, size + 1) ** 0.8
    return rng.permutation(size)[np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n))]


def shapes(rng: np.random.Generator) -> list[Resources]:
    amounts = [
        {"vcore": 1000 * (1 + s % 64) * (1 + s % 7), "memory": int(rng.integers(1, 256)) * 2**30} for s in range(300)
    ]
    return [amount | ({"gpu": 1 + s % 4} if s % 5 == 0 else {}) for s, amount in enumerate(amounts)]


def accounts(rng: np.random.Generator) -> dict[str, Any]:
    """A tree of 20 x 10 accounts with 25 users each. All have used something; 2,000 have running jobs."""
    names = [(f"a{i}", "root") for i in range(20)] + [(f"a{i}.{j}", f"a{i}") for i, j in product(range(20), range(10))]
    rows = [Association(account=name, parent=above, shares=float(rng.integers(1, 20))) for name, above in names]
    rows += [Association(account=f"a{i}.{j}", user=f"u{k}") for i, j, k in product(range(20), range(10), range(25))]
    usage = Usage(
        amounts=rng.lognormal(10, 3, ASSOCIATIONS),
        at=NOW - rng.uniform(0, WEEK, ASSOCIATIONS),
        users=rng.integers(0, ASSOCIATIONS, 2000),
        rates=rng.uniform(1, 100, 2000),
        since=NOW - rng.uniform(0, WEEK / 7, 2000),
        until=np.full(2000, np.inf),
    )
    return {"tree": AccountTree.build(rows), "association_ids": rng.permutation(ASSOCIATIONS), "usage": usage}


def applications(size: int, queues: np.ndarray, rng: np.random.Generator) -> Applications:
    """Applications, a tenth of which use something."""
    return Applications(
        created_at=NOW - rng.exponential(WEEK / 2, size),
        id_places=rng.permutation(size),
        queues=queues[:size],
        used={at: {"vcore": int(rng.integers(1, 9)) * 1000} for at in range(0, size, 10)},
    )


@contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """The milliseconds of each phase, measured while this is open."""
    spent = dict.fromkeys(PHASES, 0.0)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **fields: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args, **fields)
            finally:
                spent[name] += (time.perf_counter() - begun) * 1000

        return run

    functions = {name: getattr(pass_module, name) for name in PHASES}
    for name, function in functions.items():
        setattr(pass_module, name, timed(name, function))
    try:
        yield spent
    finally:
        for name, function in functions.items():
            setattr(pass_module, name, function)


def copy_ms(state: RankingState, ranking: Ranking) -> float:
    """Copy every input column and every result array once, into existing memory; the best time."""
    arrays = [getattr(state.jobs, name) for name in JobColumns.__struct_fields__]
    arrays += [ranking.ids, ranking.ranked_priorities, ranking.priorities.points_sums, ranking.priorities.priorities]
    arrays += [factor.values for factor in ranking.priorities.factors]
    copies = [array.copy() for array in arrays]
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        for array, copied in zip(arrays, copies, strict=True):
            np.copyto(copied, array)
        times.append((time.perf_counter() - begun) * 1000)
    return min(times)


def measure(case: Case) -> dict[str, Any]:
    state, settings = state_of(case, np.random.default_rng(case.jobs)), PrioritySettings()
    factors = load_factors(settings)
    ranking = rank(state, settings, factors, NOW)
    passes = []
    for _ in range(REPEATS):
        with clocks() as spent:
            begun = time.perf_counter()
            ranking = rank(state, settings, factors, NOW)
            total = (time.perf_counter() - begun) * 1000
        passes.append(
            {"total": total, **{PHASES[name]: ms for name, ms in spent.items()}, "rest": total - sum(spent.values())}
        )
    assert len(ranking.ids) == int(state.jobs.eligible.sum())
    assert ranking.ranked_priorities.max() == INT32_MAX
    totals, copied = [one["total"] for one in passes], copy_ms(state, ranking)
    return {
        "jobs": case.jobs,
        "leaf queues": case.leaves,
        "applications": case.applications,
        "pass, ms": statistics.median(totals),
        "min": min(totals),
        **{phase: statistics.median(one[phase] for one in passes) for phase in [*PHASES.values(), "rest"]},
        "copy": copied,
        "pass/copy": min(totals) / copied,
    }


def busy_s() -> float:
    """The CPU seconds that the whole machine has used."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else max(case.jobs for case in CASES)
    begun, busy, own = time.perf_counter(), busy_s(), time.process_time()
    rows = [measure(case) for case in CASES if case.jobs <= wanted]
    others = (busy_s() - busy - (time.process_time() - own)) / (time.perf_counter() - begun)
    conditions = (
        f"{ASSOCIATIONS} associations, six factors; medians of {REPEATS} passes in ms, after one to warm up; "
        f"one thread; other processes used {max(others, 0):.1f} of {os.cpu_count()} cores meanwhile"
    )
    report("ranking", conditions, rows)


if __name__ == "__main__":
    main()
