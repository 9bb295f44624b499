"""A scheduling cycle: snapshot + nodes + now -> allocations and, for what was looked at, why it waits.

Pure and deterministic: the same input gives the same output. Jobs that fit start, in the order of the
traversal; a shape that found no room is not tried again in the cycle, since room only shrinks in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources, shown
from rankd.core.model.queue import NodeSort
from rankd.core.placement.node_table import NodeSortPolicy, NodeTable
from rankd.core.placement.request import Shape
from rankd.core.placement.traversal import Candidate, Traversal
from rankd.core.ranking.queue_forest import QueueView

QUEUE_QUOTA = "queue quota"
NO_NODE_FITS = "no node fits"
RESOURCES = "resources"


class PartitionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One partition at the instant of a cycle.

    ``queues`` has the root first; ``candidates`` holds each leaf's jobs in its order; ``used`` what each queue
    uses (children included); ``shapes`` each candidate's shape by job.
    """

    queues: Sequence[QueueView]
    candidates: Mapping[int, Sequence[Candidate]]
    shapes: Mapping[int, Shape]
    used: Mapping[int, Resources]
    nodes: Sequence[Node]
    node_sort: NodeSort


class Placement(msgspec.Struct, frozen=True):
    """A job and the nodes that it gets, in the order chosen."""

    job: int
    nodes: tuple[str, ...]


class WaitReason(msgspec.Struct, frozen=True):
    """Why the jobs of a queue with a shape wait: a stable code and the blocking fact."""

    queue: int
    shape: int
    reason: str
    fact: str


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations in the order decided, and reasons per queue and shape."""

    placements: tuple[Placement, ...]
    reasons: tuple[WaitReason, ...]


def run_cycle(problem: PartitionProblem, policy: NodeSortPolicy) -> CycleOutcome:
    """Place what fits."""
    return _Cycle(problem, policy).run()


class _Cycle:
    def __init__(self, problem: PartitionProblem, policy: NodeSortPolicy) -> None:
        self.problem = problem
        self.table = NodeTable(problem.nodes, policy, problem.node_sort.resourceweights)
        self.walk = Traversal(problem.queues, problem.candidates, problem.used, self.table.totals())
        self.placements: list[Placement] = []
        self.reasons: dict[tuple[int, int], WaitReason] = {}
        self.keys: dict[int, int] = {}
        self.full: dict[int, tuple[str, str]] = {}

    def run(self) -> CycleOutcome:
        for queue, candidate in self.walk:
            shape = self.problem.shapes[candidate.job]
            key = self._key(shape)
            if (queue, key) in self.reasons:
                continue  # what blocked the first of them has not become less
            blocked = self._try(queue, candidate, shape, key)
            if blocked:
                self.reasons[queue, key] = WaitReason(queue, key, *blocked)
        return CycleOutcome(placements=tuple(self.placements), reasons=tuple(self.reasons.values()))

    def _key(self, shape: Shape) -> int:
        if id(shape) not in self.keys:
            self.keys[id(shape)] = shape.key()
        return self.keys[id(shape)]

    def _try(self, queue: int, candidate: Candidate, shape: Shape, key: int) -> tuple[str, str] | None:
        """Start the job, or say why not."""
        if over := self.walk.over_quota(queue, _scaled(shape.resources, shape.min_nodes)):
            return QUEUE_QUOTA, f"{over[0]} is at its maximum of {over[1]}"
        if key in self.full:
            return self.full[key]
        places = self.table.choose(shape, self.walk.room(queue))
        if not places and shape.exclusive and self.table.choose(shape):
            return QUEUE_QUOTA, "the maximum of its queue, or of one above, is too small for whole nodes"
        if not places:
            self.full[key] = self._why_none(shape)
            return self.full[key]
        self.walk.started(queue, candidate.amount, self.table.amounts(places, shape))
        self.table.take(places, shape)
        names = tuple(self.table.nodes[place].name for place in places)
        self.placements.append(Placement(candidate.job, names))
        return None

    def _why_none(self, shape: Shape) -> tuple[str, str]:
        able = int(self.table.could_hold(shape).sum())
        asked = f"{shape.min_nodes} node(s) with {_described(shape)}"
        if able < shape.min_nodes:
            return NO_NODE_FITS, f"{asked} asked; {able} of {len(self.table.nodes)} could hold it"
        free = int(self.table.fitting(shape).sum())
        return RESOURCES, f"{asked} free asked; {free} have room now, {able} could hold it"


def _described(shape: Shape) -> str:
    """``vcore 4, memory 1073741824, gpu=a100, exclusive``."""
    parts = [f"{kind} {shown(kind, amount):g}" for kind, amount in sorted(shape.resources.items())]
    parts += [shape.constraints] if shape.constraints else []
    return ", ".join(parts + (["exclusive"] if shape.exclusive else []))


def _scaled(resources: Resources, times: int) -> Resources:
    return {kind: amount * times for kind, amount in resources.items()}
