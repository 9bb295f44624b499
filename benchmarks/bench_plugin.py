"""The cost of another package's factor for a full pass and a delta: its values are computed in a worker process.

The pass and the jobs are those of `bench_ranking`. To its six factors it adds: none; one with a value per association;
one with a value per job whose formula the views compute; and one without a formula. `ask` is the request for the values
of a few new jobs, as a delta makes it. `store` writes a whole pass into a real database.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from bench_ranking import ASSOCIATIONS, NOW, Case, busy_s, state_of
from measure import report

from rankd.config.plugin import load_factors
from rankd.core.model.setting import DEFAULT_WEIGHTS, PluginSettings, PrioritySettings
from rankd.core.ranking.factor import Factor, FactorContext, evaluate
from rankd.core.ranking.name import Names
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.plugin.worker_factor import WorkerFactor, late_values, start_workers, workers_among
from rankd.store.engine.url import open_database
from rankd.store.record.generation import GenerationRecord, stages
from rankd.store.schema.migration import upgrade
from rankd.store.schema.view import FactorColumn

JOBS = 1_000_000
REPEATS = 9
ASKS = 200
MODULE = """
import numpy as np
from rankd.core.ranking.factor import Per
class PerJob:
    name, per, lowest, highest = "per_job", Per.JOB, 0.0, 1.0
    def __init__(self, settings): pass
    def values(self, context): return np.minimum(1.0, (context.now - context.jobs.submitted_at) / 1e9)
    def sql(self): return None
    def parameters(self): return {}
class Formula(PerJob):
    name = "formula"
    def sql(self): return "min(1.0, ({ranked_at} - {submitted_at}) / 1e9)"
class PerAssociation(PerJob):
    name, per = "per_association", Per.ASSOCIATION
    def values(self, context):
        return np.array([len(user) % 2 for account, user in context.groups.names.associations], dtype=float)
"""
METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: bench-plugin\nVersion: 1\n",
    "entry_points.txt": "[rankd.factors]\n"
    + "".join(
        f"{name} = bench_plugin_module:{kind}\n"
        for name, kind in (("per_job", "PerJob"), ("formula", "Formula"), ("per_association", "PerAssociation"))
    ),
}


@contextmanager
def installed() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as place:
        (Path(place) / "bench_plugin_module.py").write_text(MODULE)
        metadata = Path(place) / "bench_plugin-1.dist-info"
        metadata.mkdir()
        for name, text in METADATA.items():
            (metadata / name).write_text(text)
        sys.path.insert(0, place)
        yield


def worker_cpu_s(worker: WorkerFactor) -> float:
    user, system = map(int, Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def measure(name: str | None, state: RankingState) -> dict[str, Any]:
    weights = DEFAULT_WEIGHTS | ({name: 1000.0} if name else {})
    settings = PrioritySettings(weights=weights, plugins=PluginSettings(deadline_s=30.0))
    factors = load_factors(settings)
    workers = workers_among(factors)
    start_workers(factors, 30.0)
    passes, cpus = [], []
    before = 0.0
    for turn in range(REPEATS + 1):
        if turn == 1:
            before = sum(map(worker_cpu_s, workers))
        begun, cpu = time.perf_counter(), time.process_time()
        late_values(factors)
        ranking = rank(state, settings, factors, NOW + turn, for_deltas=True)
        if turn:
            passes.append((time.perf_counter() - begun) * 1000)
            cpus.append((time.process_time() - cpu) * 1000)
        assert not ranking.priorities.failures
    row = {
        "another package's factor": name or "none",
        "pass, ms": statistics.median(passes),
        "CPU": statistics.median(cpus),
        "worker's CPU": (sum(map(worker_cpu_s, workers)) - before) * 1000 / REPEATS,
        "worker's values": (workers[0].counts.last_s or 0.0) * 1000 if workers else 0.0,
        "ask 1": asks_ms(workers, state, ranking, 1),
        "ask 100": asks_ms(workers, state, ranking, 100),
        **asyncio.run(store(state, ranking, factors)),
    }
    for worker in workers:
        worker.close()
    return row


def asks_ms(workers: list[WorkerFactor], state: RankingState, ranking: Ranking, jobs: int) -> float:
    """The median time of asking for the values of ``jobs`` jobs; the worker already has all other data."""
    times = []
    for place in range(ASKS if workers and workers[0].per == "job" else 0):
        few = state.jobs.take(np.arange(place, place + jobs))
        context = FactorContext(now=NOW, jobs=few, groups=ranking.groups)
        begun = time.perf_counter()
        evaluate(workers[0], context)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times) if times else 0.0


async def store(state: RankingState, ranking: Ranking, factors: list[Factor]) -> dict[str, float]:
    columns = [FactorColumn(name=f.name, per=f.per, sql=f.sql(), parameters=tuple(f.parameters())) for f in factors]
    record = GenerationRecord(
        number=1,
        revision=0,
        ranking=ranking,
        factors=columns,
        parameters=[],
        partitions=[("default", 1.0, 1.0)],
        association_ids=np.full(len(ranking.fairshare.fairshare), -1),
    )
    del state
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as place:
        async with open_database(Path(place) / "rankd.db", durable=False) as database:
            await upgrade(database)
            begun, cpu = time.perf_counter(), time.process_time()
            for stage in stages(record):
                await database.write(stage)
            return {
                "store, ms": (time.perf_counter() - begun) * 1000,
                "store's CPU": (time.process_time() - cpu) * 1000,
            }


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    state = state_of(Case(jobs, (20,), 0), np.random.default_rng(1))
    pairs = [("account", f"user{place}") for place in range(ASSOCIATIONS)]
    state = msgspec.structs.replace(state, names=Names(associations=pairs))
    begun, busy, own = time.perf_counter(), busy_s(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    with installed():
        rows = [measure(name, state) for name in (None, "per_association", "formula", "per_job")]
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - own
    others = (busy_s() - busy - spent) / (time.perf_counter() - begun)
    conditions = (
        f"{jobs:,} jobs, {ASSOCIATIONS:,} associations; medians of {REPEATS} passes, of {ASKS} asks, in ms; "
        f"other processes (the workers among them) used {max(others, 0):.1f} of {os.cpu_count()} cores meanwhile"
    )
    report("plugin", conditions, rows)


if __name__ == "__main__":
    main()
