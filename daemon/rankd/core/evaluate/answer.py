"""The output, from the decisions: rows with names instead of ids, and numbers as users see them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType

from rankd.core.evaluate.admission import Job, Rejection
from rankd.core.evaluate.document import Id
from rankd.core.evaluate.placing import NodeSorts, Placed, node_order
from rankd.core.evaluate.result import (
    AllocationResult,
    AssociationResult,
    FactorRow,
    JobRank,
    JobResult,
    NodeScore,
    QueueResult,
    Ranks,
    ReservationResult,
    Result,
    Warned,
)
from rankd.core.evaluate.state import Situation
from rankd.core.model.device import is_device_kind, with_failed, without_sum
from rankd.core.model.index_set import each
from rankd.core.model.job import URGENCY_EXPEDITE
from rankd.core.model.quantity import shown_resources
from rankd.core.ranking.application_order import application_order, queues_by_id
from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.priority import Override
from rankd.core.ranking.queue_order import queue_order
from rankd.core.ranking.ranking import QueueRow, Ranking

APPLICATION_WAITING = "application waiting"


def answer(
    situation: Situation,
    ranking: Ranking,
    placed: Placed,
    rejected: list[Rejection],
    warnings: Sequence[Warned],
    sorts: NodeSorts,
) -> Result:
    """The whole output."""
    ids, tasks = _ids(situation), _Tasks(situation)
    return Result(
        rejected=rejected,
        jobs=list(_jobs(situation, ranking, placed)),
        queues=list(_queues(situation, ranking)),
        queue_order=_queue_orders(situation, ranking),
        application_order=_application_orders(situation, ranking),
        node_order={
            partition: [NodeScore(name=name, score=score) for name, score in nodes]
            for partition, nodes in node_order(situation, sorts).items()
        },
        associations=_associations(situation, ranking),
        ranking=[ids[number] for number in ranking.ids.tolist()],
        allocations=[
            AllocationResult(
                job=ids[made.job],
                nodes=list(made.nodes),
                task=tasks.next(made.job),
                devices={node: list(held) for node, held in made.devices.items()} or UNSET,
            )
            for made in placed.placements
        ],
        reservations=[
            ReservationResult(
                job=ids[made.job], nodes=list(made.nodes), starts_at=made.starts_at, task=tasks.next(made.job)
            )
            for made in placed.reservations
        ],
        warnings=[*warnings, *_warnings(situation, ranking)],
    )


def ranks_of(situation: Situation, ranking: Ranking, rejected: list[Rejection]) -> Ranks:
    """The part of the output that concerns only the order of the jobs."""
    ranks = {number: rank for rank, number in enumerate(ranking.ids.tolist(), start=1)}
    priorities = ranking.priorities.priorities.tolist()
    jobs = [
        JobRank(id=job.entry.id, priority=priority, rank=ranks.get(job.number))
        for job, priority in zip(situation.pending, priorities, strict=True)
    ]
    return Ranks(rejected=rejected, jobs=jobs)


class _Tasks:
    """The indices of the tasks of each array, ascending: those that start now, then those with reservations."""

    def __init__(self, situation: Situation) -> None:
        self._left = {
            job.number: each(situation.eligible_tasks.get(job.number, job.array.indices))
            for job in situation.pending
            if job.array is not None
        }

    def next(self, number: int) -> int | UnsetType:
        """The next task of this job; UNSET if it is no array."""
        return next(self._left[number]) if number in self._left else UNSET


def _warnings(situation: Situation, ranking: Ranking) -> Iterator[Warned]:
    for error in ranking.priorities.failures:
        yield Warned(code=error.code, message=f"{error.message}; it counts 0")
    for node in situation.inventory.nodes:
        if node.partition not in situation.catalogue.names:
            message = f"node '{node.name}' is in partition '{node.partition}', which is not in the section queues"
            yield Warned(code="unknown_partition", message=message)
    yield from _of_devices(situation)


def _of_devices(situation: Situation) -> Iterator[Warned]:
    """Devices that pending jobs ask for and no node of the document has, also not a failed one.

    The daemon refuses types that no node has offered and no queue names. A document may leave its nodes out.
    """
    nodes = situation.inventory.nodes
    known = {kind for node in nodes for kind in with_failed(node.capacity, node.devices)}
    asked: dict[str, Id] = {}
    for job in situation.pending:
        for kind in without_sum(job.resources):
            if is_device_kind(kind):
                asked.setdefault(kind, job.entry.id)
    for kind in sorted(asked.keys() - known) if nodes else ():
        message = (
            f"no node has {kind}, for which job '{asked[kind]}' asks; the daemon takes such a job only if a node had"
            f" {kind} before, or a queue names it"
        )
        yield Warned(code="unknown_resource", message=message)


def _ids(situation: Situation) -> dict[int, Id]:
    return {job.number: job.entry.id for job in situation.pending}


def _jobs(situation: Situation, ranking: Ranking, placed: Placed) -> Iterator[JobResult]:
    ranks = {number: rank for rank, number in enumerate(ranking.ids.tolist(), start=1)}
    priorities = ranking.priorities.priorities.tolist()
    columns = situation.state.jobs
    factors = [(row.name, row.weight, row.of_jobs(columns).tolist()) for row in ranking.priorities.factors]
    for place, job in enumerate(situation.pending):
        verdict, rank = situation.verdicts[place], ranks.get(job.number)
        reason = verdict if isinstance(verdict, str) else placed.reasons.get(job.number)
        if rank is None and not isinstance(verdict, str):
            reason = APPLICATION_WAITING
        yield JobResult(
            id=job.entry.id,
            priority=priorities[place],
            rank=rank,
            override=_override(job, situation),
            class_value=job.resolved.class_value,
            priority_class=job.resolved.name,
            preemption_policy=job.resolved.preemption_policy,
            reason=reason,
            factors=[
                FactorRow(name=name, value=values[place], weight=weight, points=weight * values[place])
                for name, weight, values in factors
            ],
        )


def _override(job: Job, situation: Situation) -> str | None:
    """Why the priority is not the sum of its factors; None if it is."""
    if job.entry.urgency == URGENCY_EXPEDITE:
        return Override.EXPEDITED
    if job.entry.fixed_priority is not None:
        return Override.FIXED
    policy = situation.settings.policy
    return None if policy == "multifactor" else policy


def _queues(situation: Situation, ranking: Ranking) -> Iterator[QueueResult]:
    rows = _rows(ranking)
    several = len(situation.catalogue.names) > 1
    for partition, views in zip(situation.catalogue.names, situation.state.queues, strict=True):
        for view in views:
            row, properties = rows[view.id], view.properties
            yield QueueResult(
                path=view.path,
                priority=row.priority,
                policy=properties.priority_policy,
                offset=properties.priority_offset,
                sort_priority="enabled" if properties.sort_priority else "disabled",
                share=row.share,
                pending={kind: amount for kind, amount in shown_resources(row.pending).items() if amount},
                partition=partition if several else UNSET,
            )


def _rows(ranking: Ranking) -> dict[int, QueueRow]:
    return {row.id: row for row in ranking.queues}


def _order_key(situation: Situation, queue: int) -> str:
    """A queue's path, after the name of its partition if that is not the first one."""
    place, path = situation.catalogue.places[queue], situation.catalogue.paths[queue]
    return path if place == 0 else f"{situation.catalogue.names[place]}:{path}"


def _queue_orders(situation: Situation, ranking: Ranking) -> dict[str, list[str]]:
    rows = _rows(ranking)
    orders: dict[str, list[str]] = {}
    for views, total in zip(situation.state.queues, situation.state.totals, strict=True):
        for parent, children in queue_order(views, rows, total).items():
            orders[_order_key(situation, parent)] = [child.path for child in children]
    return orders


def _application_orders(situation: Situation, ranking: Ranking) -> dict[str, list[Id]]:
    """The applications of each leaf by id. A job that is its own application has the job's id."""
    state, ids = situation.state, _ids(situation)
    leaves = queues_by_id(state.queues, state.totals)
    orders = application_order(state.jobs, ranking.priorities.priorities, state.applications, leaves, ranking.held_back)
    listed = situation.book.applications
    return {
        _order_key(situation, queue): [
            ids[job] if application == NO_GROUP else listed[application].id for application, job in orders[queue]
        ]
        for queue in sorted(orders)
    }


def _associations(situation: Situation, ranking: Ranking) -> list[AssociationResult]:
    """The tree in the order of the output: each account, its users, then its sub-accounts."""
    if not situation.accounts.listed:
        return []
    tree, numbers = situation.accounts.tree, ranking.fairshare
    columns = [
        column.tolist()
        for column in (
            numbers.shares_norm,
            numbers.usage,
            numbers.usage_effective,
            numbers.level_fairshare,
            numbers.fairshare,
        )
    ]
    return [
        AssociationResult(
            account=tree.account_of(node),
            user=tree.user_of(node),
            shares_norm=columns[0][node],
            usage=columns[1][node],
            usage_effective=columns[2][node],
            level_fairshare=_shown(columns[3][node]),
            fairshare=None if math.isnan(columns[4][node]) else columns[4][node],
        )
        for node in tree.walk()
    ]


def _shown(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value
