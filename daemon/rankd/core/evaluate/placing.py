"""The scheduling cycle of a document: the ranked jobs on its nodes, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rankd.core.evaluate.amount import scaled
from rankd.core.evaluate.state import Situation
from rankd.core.placement.cycle import PartitionProblem, Placement, run_cycle
from rankd.core.placement.node_table import NodeSortPolicy, NodeTable
from rankd.core.placement.traversal import Candidate
from rankd.core.ranking.queue_forest import roll_up
from rankd.core.ranking.ranking import Ranking

NodeSorts = Mapping[str, NodeSortPolicy]


class Placed(msgspec.Struct, frozen=True):
    """What starts now, in the order decided, and why the others do not, by job number."""

    placements: list[Placement]
    reasons: dict[int, str]


def place(situation: Situation, ranking: Ranking, sorts: NodeSorts) -> Placed:
    """Run a cycle in each partition on what was ranked."""
    candidates = _candidates(situation, ranking)
    placed = Placed([], {})
    for at, partition in enumerate(situation.forest.partitions):
        views = situation.state.queues[at]
        own = {view.id: candidates[view.id] for view in views if view.id in candidates}
        shapes = dict(zip((job.number for job in situation.pending), situation.shapes, strict=True))
        problem = PartitionProblem(
            queues=views,
            candidates=own,
            shapes=shapes,
            used=roll_up(situation.state.used, views),
            nodes=situation.inventory.of(partition.name),
            node_sort=partition.nodesort,
        )
        outcome = run_cycle(problem, sorts[partition.nodesort.type])
        placed.placements.extend(outcome.placements)
        started = {placement.job for placement in outcome.placements}
        reasons = {(reason.queue, reason.shape): reason.reason for reason in outcome.reasons}
        placed.reasons.update(
            (candidate.job, reason)
            for queue, waiting in own.items()
            for candidate in waiting
            if candidate.job not in started and (reason := reasons.get((queue, shapes[candidate.job].key())))
        )
    return placed


def _candidates(situation: Situation, ranking: Ranking) -> dict[int, list[Candidate]]:
    """By leaf its ranked jobs, in the ranking's order."""
    jobs = {job.number: job for job in situation.pending}
    candidates: dict[int, list[Candidate]] = {}
    for number, priority in zip(ranking.ids.tolist(), ranking.ranked_priorities.tolist(), strict=True):
        job = jobs[number]
        amount = scaled(job.resources, job.entry.nodes)
        candidates.setdefault(job.queue, []).append(Candidate(number, priority, amount))
    return candidates


def node_order(situation: Situation, sorts: NodeSorts) -> dict[str, list[tuple[str, float]]]:
    """By partition its nodes that are up with their utilisation, the next to be used first; before the cycle."""
    return {
        partition.name: NodeTable(
            situation.inventory.of(partition.name), sorts[partition.nodesort.type], partition.nodesort.resourceweights
        ).in_order()
        for partition in situation.forest.partitions
    }
