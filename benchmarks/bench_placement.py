"""Pure scheduling cycles: placements per second, a full cluster with a million pending jobs, and backfill.

Every node has a different free vector, and is half full. Quotas (a maximum per queue and for root) and reasons are on.
Shows the median of several whole cycles, and the processor time of the best one, because other processes share the
machine. Data that the scheduler keeps between cycles (nodes' capacities, running jobs as columns) is prepared before.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import count

import msgspec
import numpy as np
from measure import report

from rankd.config.plugin import load_node_sort
from rankd.core.model.device import Device, offered
from rankd.core.model.node import Node
from rankd.core.model.queue import NodeSort, QueueProperties
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import CycleOutcome, Hold, PartitionProblem, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.queue_view import QueueView

NOW = 1_700_000_000.0
GIB = 2**30
REPEATS = 5


def nodes(n: int, rng: np.random.Generator, filled: float, least: float = 0.0) -> list[Node]:
    """Nodes of three sizes, some with GPUs. Used between ``least`` and ``filled``, each by different amounts."""
    made = []
    for place in range(n):
        cores = int(rng.choice([64, 96, 128]))
        capacity = {"vcore": cores * 1000, "memory": cores * 4 * GIB} | ({"gpu": 8} if place % 4 == 0 else {})
        used = {
            "vcore": int(rng.integers(0, 20)) * 100 + int(capacity["vcore"] * rng.uniform(least, filled)),
            "memory": int(capacity["memory"] * rng.uniform(least, filled)) + place,
            "gpu": int(rng.integers(0, 5)) if place % 4 == 0 else 0,
        }
        used = {kind: min(amount, capacity.get(kind, 0)) for kind, amount in used.items() if amount}
        made.append(Node(name=f"n{place:05}", capacity=capacity, used=used))
    return made


def kinds(n: int, rng: np.random.Generator, largest_gang: int = 1) -> list[Kind]:
    """``n`` distinct shapes: 1 to 16 cores, different memory, one in ten with GPUs, limits of 1 to 24 hours."""
    made = []
    for place in range(n):
        cores = int(rng.choice([1, 1, 2, 4, 8, 16]))
        resources = {"vcore": cores * 1000, "memory": cores * 2 * GIB + place * 2**20}
        resources |= {"gpu": int(rng.integers(1, 3))} if rng.random() < 0.1 else {}
        gang = int(rng.integers(1, largest_gang + 1))
        shape = Shape(partition="default", nodes=gang, min_nodes=gang, resources=resources)
        made.append(Kind(shape=shape, time_limit_s=3600.0 * int(rng.integers(1, 25))))
    return made


def queues(n_leaves: int) -> list[QueueView]:
    """Two levels of fair queues. Each has a maximum that every check includes and that is never reached."""
    room = {"vcore": 10**12, "memory": 2**60}
    views = [QueueView(id=0, path="root", parent=None, properties=QueueProperties(), maximum=room)]
    for place in range(n_leaves):
        if place % 10 == 0:
            parent = len(views)
            views.append(QueueView(id=parent, path=f"root.q{parent}", parent=0, properties=QueueProperties()))
        id_ = len(views)
        views.append(
            QueueView(
                id=id_,
                path=f"{views[parent].path}.q{id_}",
                parent=parent,
                properties=QueueProperties(),
                guaranteed={"vcore": 10**7},
                maximum=room,
            )
        )
    return views


def problem(
    n_jobs: int,
    n_kinds: int,
    n_leaves: int,
    of: list[Node] | NodeSet,
    policy: str,
    rng: np.random.Generator,
    **fields: object,
) -> PartitionProblem:
    """Jobs spread over the leaves, with mixed priorities and kinds."""
    views = queues(n_leaves)
    parents = {view.parent for view in views}
    leaves = [view.id for view in views if view.id not in parents]
    listed = fields.pop("kinds", None) or kinds(n_kinds, rng)
    of_leaf = rng.integers(0, len(leaves), n_jobs)
    priorities = rng.integers(0, 20_000, n_jobs)
    own_kinds = rng.integers(0, len(listed), n_jobs)
    waiting = {}
    for place, leaf in enumerate(leaves):
        jobs = np.flatnonzero(of_leaf == place)
        jobs = jobs[np.argsort(-priorities[jobs], kind="stable")]
        waiting[leaf] = WaitingJobs(jobs=jobs + 1, priorities=priorities[jobs], kinds=own_kinds[jobs])
    return PartitionProblem(
        now=NOW,
        queues=views,
        waiting=waiting,
        kinds=KindTable(listed),
        used={view.id: {} for view in views},
        nodes=of,
        node_sort=NodeSort(type=policy),
        **fields,
    )


def holds(of: list[Node], n: int, rng: np.random.Generator) -> list[Hold]:
    """``n`` running jobs that hold all used resources, and end within a day."""
    ends_at = (NOW + rng.uniform(60, 86_400, n)).tolist()
    return [Hold(node=node.name, resources=node.used, ends_at=ends_at[place % n]) for place, node in enumerate(of)]


def timed(run: Callable[[], CycleOutcome], repeats: int = REPEATS) -> tuple[float, float, CycleOutcome]:
    """Median seconds, least processor seconds, and the outcome."""
    outcome, seconds, processor = run(), [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        outcome = run()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return statistics.median(seconds), min(processor), outcome


def place(n_nodes: int, policy: str) -> dict[str, object]:
    rng = np.random.default_rng(7)
    given = problem(10_000, 100, 20, NodeSet(nodes(n_nodes, rng, 0.5)), policy, rng)
    sort = load_node_sort(policy)
    seconds, processor, outcome = timed(lambda: run_cycle(given, sort))
    started = len(outcome.placements)
    return {
        "case": f"place 10,000 single-node jobs, 100 shapes, {n_nodes} nodes, {policy}",
        "ms": seconds * 1000,
        "processor ms": processor * 1000,
        "figure": f"{started / seconds:,.0f} placements/s, {started / processor:,.0f} per processor second",
    }


def place_on_devices(n_nodes: int) -> dict[str, object]:
    """Jobs that ask for GPUs, on nodes with 8 devices each, against the same nodes that only count 8 GPUs."""
    rng = np.random.default_rng(7)
    counted = [
        Node(name=one.name, capacity=one.capacity | {"gpu": 8}, used=one.used) for one in nodes(n_nodes, rng, 0.5)
    ]
    counted = [msgspec.structs.replace(one, used=one.used | {"gpu": 0}) for one in counted]
    listed = [msgspec.structs.replace(one, devices=eight(), capacity=offered(one.capacity, eight())) for one in counted]
    asked = [
        msgspec.structs.replace(
            kind, shape=msgspec.structs.replace(kind.shape, resources=kind.shape.resources | {"gpu": 1 + place % 4})
        )
        for place, kind in enumerate(kinds(100, rng))
    ]
    sort, seconds = load_node_sort("fair"), {}
    given = {
        name: problem(10_000, 100, 20, NodeSet(of), "fair", np.random.default_rng(8), kinds=asked)
        for name, of in (("counted", counted), ("devices", listed))
    }
    for _ in range(REPEATS):  # in turns, since the machine is not always equally fast
        for name, of in given.items():
            start = time.process_time()
            outcome = run_cycle(of, sort)
            seconds.setdefault(name, []).append(time.process_time() - start)
    counted_s, devices_s = min(seconds["counted"]), min(seconds["devices"])
    return {
        "case": f"place 10,000 jobs with 1 to 4 GPUs each, {n_nodes} nodes with 8 devices, fair",
        "ms": statistics.median(seconds["devices"]) * 1000,
        "processor ms": devices_s * 1000,
        "figure": f"{len(outcome.placements) / devices_s:,.0f} placements per processor second,"
        f" {counted_s / devices_s:.2f} of the rate where GPUs are only counted",
    }


def eight() -> tuple[Device, ...]:
    """Eight devices of two models in two groups."""
    return tuple(
        Device(model="a100" if place < 4 else "v100", id=f"g{place}", index=place, group=place // 4)
        for place in range(8)
    )


def full_cluster(n_leaves: int) -> dict[str, object]:
    given = full_problem(n_leaves)
    sort = load_node_sort("fair")
    seconds, processor, outcome = timed(lambda: run_cycle(given, sort), 25)
    return {
        "case": f"1,000,000 pending, 2,000 shapes, {n_leaves} leaves, 5,000 nodes, full, without a memory",
        "ms": seconds * 1000,
        "processor ms": processor * 1000,
        "figure": f"{len(outcome.placements)} started, {len(outcome.reasons)} reasons, 1 reservation",
    }


def full_cluster_again(n_leaves: int, n_uneven: int = 0) -> dict[str, object]:
    """With the memory of the last cycle, after one more job of one leaf.

    ``n_uneven`` of the nodes have free cores, but no memory. The others have memory, but no cores.
    """
    given, memory, sort, jobs = (
        full_problem(n_leaves, n_uneven),
        CycleMemory(),
        load_node_sort("fair"),
        count(2_000_000),
    )

    def one_more() -> CycleOutcome:
        nonlocal given
        leaf = next(jobs) % 7 + 2
        own = given.waiting[leaf]
        more = WaitingJobs(
            jobs=np.append(own.jobs, next(jobs)),
            priorities=np.append(own.priorities, own.priorities[-1]),
            kinds=np.append(own.kinds, 5),
        )
        given = msgspec.structs.replace(given, waiting={**given.waiting, leaf: more})
        return run_cycle(given, sort, memory)

    seconds, processor, outcome = timed(one_more, 25)
    return {
        "case": f"the same, {n_leaves} leaves, after one more job, with the memory of the last cycle"
        + (f", {n_uneven} nodes with cores" if n_uneven else ""),
        "ms": seconds * 1000,
        "processor ms": processor * 1000,
        "figure": f"{len(outcome.placements)} started, {len(outcome.reasons)} reasons, 1 reservation",
    }


def full_problem(n_leaves: int, n_uneven: int = 0) -> PartitionProblem:
    rng = np.random.default_rng(8)
    full = []
    for place, node in enumerate(nodes(5_000, rng, 0.9)):
        left = "memory" if place >= n_uneven else "vcore"
        full.append(Node(name=node.name, capacity=node.capacity, used=node.capacity | {left: node.used.get(left, 0)}))
    held = NodeTable(full, load_node_sort("fair"), {}, holds(full, 5_000, rng)).held
    return problem(1_000_000, 2_000, n_leaves, NodeSet(full), "fair", rng, holds=held)


def backfill() -> dict[str, object]:
    rng = np.random.default_rng(9)
    of = nodes(5_000, rng, 1.0, 0.9)
    held = NodeTable(of, load_node_sort("fair"), {}, holds(of, 2_000, rng)).held
    given = problem(
        100_000,
        200,
        20,
        NodeSet(of),
        "fair",
        rng,
        kinds=[*kinds(150, rng), *kinds(50, rng, largest_gang=400)],
        holds=held,
        reserve_depth=100,
    )
    sort = load_node_sort("fair")
    seconds, processor, outcome = timed(lambda: run_cycle(given, sort))
    return {
        "case": "backfill: 100,000 pending, 200 shapes (1 to 400 nodes), 2,000 running, 5,000 nodes, reserve_depth 100",
        "ms": seconds * 1000,
        "processor ms": processor * 1000,
        "figure": f"{len(outcome.placements)} started, {len(outcome.reservations)} reserved",
    }


def main() -> None:
    cases = [lambda n=n, policy=policy: place(n, policy) for n in (5_000, 50_000) for policy in ("fair", "binpacking")]
    cases.append(lambda: place_on_devices(5_000))
    cases += [lambda n=n, case=case: case(n) for n in (20, 2_000) for case in (full_cluster, full_cluster_again)]
    cases.append(lambda: full_cluster_again(20, 50))
    cases.append(backfill)
    rows = [case() for case in cases]
    report("placement", __doc__.splitlines()[0], rows)


if __name__ == "__main__":
    sys.exit(main())
