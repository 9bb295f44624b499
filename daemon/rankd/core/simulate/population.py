"""The users of a trace in the account tree, and what each job is to the ranking: columns of all jobs of the trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.fairshare.decay import billing_rate
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.quantity import VCORE, scaled
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import NO_GROUP, FloatArray, IntArray, JobColumns
from rankd.core.simulate.route import Goal, Router
from rankd.core.simulate.shape import shape_of
from rankd.core.simulate.site import MILLICORES, Site
from rankd.core.simulate.trace import Amounts, WorkJob

DEFAULT_ACCOUNT = "default"
_USUAL_URGENCY = 16


_Size = tuple[int, int, int, int, int, Amounts]
"""What decides a job's shape: its partition, processors, whole nodes with the cores on each, nodes, other amounts."""


class _Kinds(NamedTuple):
    """The shapes of jobs by index, with the nodes and millicores that the ranking counts, int64 (n_shapes,) each.

    ``of_jobs`` int64 (n_jobs,): the index of each job's shape. A pool counts as nodes with one core each, so that sizes
    are the same parts of both.
    """

    shapes: Sequence[Shape]
    nodes: IntArray
    vcores: IntArray
    of_jobs: IntArray


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs of a simulation; job ``i`` has the id ``i + 1``, in the order of submission.

    ``accounts``: of each job. ``columns``: as the ranking has them; their partitions are places among those of the
    site. ``shapes``: by index in ``columns``. ``totals``: what a job of each shape asks for on all its nodes together.
    ``rates`` float64 (n,): billing units per second while a job runs, by what it asks for. ``runs_s``, ``limits_s``
    float64 (n,). ``processors`` int64 (n,). ``expected_s`` float64 (n,): the run time by which cycles plan, the limit
    unless a :class:`.Predictor` writes another one at a job's submission.
    """

    jobs: Sequence[WorkJob]
    tree: AccountTree
    accounts: Sequence[str]
    columns: JobColumns
    shapes: Sequence[Shape]
    totals: Sequence[dict[str, int]]
    rates: FloatArray
    usage_factor: float
    runs_s: FloatArray
    limits_s: FloatArray
    processors: IntArray
    expected_s: FloatArray


def populate(site: Site, jobs: Sequence[WorkJob], queue_ids: Mapping[tuple[str, str], int]) -> Population:
    """Put the users into accounts, and make the columns.

    A user whom the site's accounts do not list is in the account that is named after the group, with one share.
    """
    listed = list(site.associations)
    known = AccountTree.build(listed)
    accounts = [known.default_account(job.user) or job.group or DEFAULT_ACCOUNT for job in jobs]
    tree = AccountTree.build(_with_newcomers(listed, known, accounts, jobs))
    router = Router(site)
    goals = [router.goal(job.queue, job.partition) for job in jobs]
    kinds = _kinds_of(site, jobs, goals)
    qos = next((place for place, one in enumerate(site.qos) if one.name == site.default_qos), NO_GROUP)
    usage_factor = site.qos[qos].usage_factor if qos != NO_GROUP else 1.0
    billing = site.priority.fairshare.billing
    prices = [billing_rate(one.resources, one.nodes, billing, usage_factor) for one in kinds.shapes]
    names = [own.partition.name for own in site.partitions]
    leaves = {goal: queue_ids[names[goal.partition], goal.leaf.lower()] for goal in set(goals)}
    limits_s = np.fromiter((job.limit_s for job in jobs), dtype=np.float64, count=len(jobs))
    groups = _Groups(
        associations=_whole(tree.user_indices[account, job.user] for account, job in zip(accounts, jobs, strict=True)),
        queues=_whole(leaves[goal] for goal in goals),
        partitions=_whole(goal.partition for goal in goals),
        qos=qos,
    )
    return Population(
        jobs=jobs,
        tree=tree,
        accounts=accounts,
        columns=_columns(jobs, kinds, groups, limits_s),
        shapes=kinds.shapes,
        totals=[scaled(shape.resources, shape.nodes) for shape in kinds.shapes],
        rates=np.array(prices, dtype=np.float64)[kinds.of_jobs],
        usage_factor=usage_factor,
        runs_s=np.fromiter((job.run_s for job in jobs), dtype=np.float64, count=len(jobs)),
        limits_s=limits_s,
        expected_s=limits_s.copy(),
        processors=_whole(job.processors for job in jobs),
    )


def _whole(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def _kinds_of(site: Site, jobs: Sequence[WorkJob], goals: Sequence[Goal]) -> _Kinds:
    numbers: dict[_Size, int] = {}
    shapes: list[Shape] = []
    counted: list[tuple[int, int]] = []
    of_jobs = np.empty(len(jobs), dtype=np.int64)
    for place, (job, goal) in enumerate(zip(jobs, goals, strict=True)):
        size = goal.partition, job.processors, job.whole_nodes, job.cores, job.nodes, job.others
        number = numbers.setdefault(size, len(shapes))
        if number == len(shapes):
            own = site.partitions[goal.partition]
            shape = shape_of(job, own, site.types)
            shapes.append(shape)
            counted.append((job.processors, MILLICORES) if own.is_pool else (shape.nodes, shape.resources[VCORE]))
        of_jobs[place] = number
    nodes, vcores = np.array(counted, dtype=np.int64).reshape(-1, 2).T
    return _Kinds(shapes, nodes, vcores, of_jobs)


class _Groups(NamedTuple):
    """The groups of each job, int64 (n_jobs,) each; all jobs have one QoS."""

    associations: IntArray
    queues: IntArray
    partitions: IntArray
    qos: int


def _columns(jobs: Sequence[WorkJob], kinds: _Kinds, groups: _Groups, limits_s: FloatArray) -> JobColumns:
    """The jobs as the ranking has them. Made without a row per job: millions of rows would take gigabytes."""
    n_jobs = len(jobs)
    submitted_at = np.fromiter((job.submit_s for job in jobs), dtype=np.float64, count=n_jobs)
    return JobColumns(
        ids=np.arange(1, n_jobs + 1, dtype=np.int64),
        associations=groups.associations,
        queues=groups.queues,
        qos=np.full(n_jobs, groups.qos, dtype=np.int64),
        partitions=groups.partitions,
        applications=np.full(n_jobs, NO_GROUP, dtype=np.int64),
        class_values=np.zeros(n_jobs, dtype=np.int64),
        urgencies=np.full(n_jobs, _USUAL_URGENCY, dtype=np.int64),
        nodes=kinds.nodes[kinds.of_jobs],
        vcores=kinds.vcores[kinds.of_jobs],
        shapes=kinds.of_jobs,
        time_limits_s=limits_s,
        submitted_at=submitted_at,
        eligible_at=submitted_at,
        fixed_priorities=np.full(n_jobs, np.nan),
    )


def _with_newcomers(
    listed: list[Association], known: AccountTree, accounts: Sequence[str], jobs: Sequence[WorkJob]
) -> list[Association]:
    pairs = dict.fromkeys(zip(accounts, (job.user for job in jobs), strict=True))
    new = [pair for pair in pairs if pair not in known.user_indices]
    missing = sorted({account for account, _ in new} - known.account_nodes.keys())
    return [
        *listed,
        *(Association(account=account) for account in missing),
        *(Association(account=account, user=user) for account, user in new),
    ]
