"""The users of a trace in the account tree, and what each job is to the ranking: columns of all jobs of the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.fairshare.decay import billing_rate
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.quantity import VCORE, scaled
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import NO_GROUP, FloatArray, IntArray, JobColumns, JobRow
from rankd.core.simulate.route import Goal, Router
from rankd.core.simulate.shape import shape_of
from rankd.core.simulate.site import MILLICORES, Site
from rankd.core.simulate.trace import Amounts, WorkJob

DEFAULT_ACCOUNT = "default"
_USUAL_URGENCY = 16


_Size = tuple[int, int, int, int, int, Amounts]
"""What decides a job's shape: its partition, processors, whole nodes with the cores on each, nodes, other amounts."""


class _Kinds(NamedTuple):
    """The shapes of jobs by their size, and the indices of these shapes."""

    shapes: dict[_Size, Shape]
    numbers: dict[_Size, int]


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
    kinds = shapes, _ = _kinds_of(site, jobs, goals)
    qos = next((place for place, one in enumerate(site.qos) if one.name == site.default_qos), NO_GROUP)
    usage_factor = site.qos[qos].usage_factor if qos != NO_GROUP else 1.0
    billing = site.priority.fairshare.billing
    prices = {size: billing_rate(one.resources, one.nodes, billing, usage_factor) for size, one in shapes.items()}
    associations = [tree.user_indices[account, job.user] for account, job in zip(accounts, jobs, strict=True)]
    names = [own.partition.name for own in site.partitions]
    leaves = {goal: queue_ids[names[goal.partition], goal.leaf.lower()] for goal in set(goals)}
    return Population(
        jobs=jobs,
        tree=tree,
        accounts=accounts,
        columns=JobColumns.from_rows(
            [
                _row(place, job, goal, kinds, site)._replace(association=association, queue=leaves[goal], qos=qos)
                for place, (job, goal, association) in enumerate(zip(jobs, goals, associations, strict=True))
            ]
        ),
        shapes=list(shapes.values()),
        totals=[scaled(shape.resources, shape.nodes) for shape in shapes.values()],
        rates=np.array([prices[_size(job, goal)] for job, goal in zip(jobs, goals, strict=True)], dtype=np.float64),
        usage_factor=usage_factor,
        runs_s=np.array([job.run_s for job in jobs], dtype=np.float64),
        limits_s=np.array([job.limit_s for job in jobs], dtype=np.float64),
        expected_s=np.array([job.limit_s for job in jobs], dtype=np.float64),
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
    )


def _kinds_of(site: Site, jobs: Sequence[WorkJob], goals: Sequence[Goal]) -> _Kinds:
    shapes: dict[_Size, Shape] = {}
    numbers: dict[_Size, int] = {}
    for job, goal in zip(jobs, goals, strict=True):
        size = _size(job, goal)
        if size not in shapes:
            numbers[size] = len(shapes)
            shapes[size] = shape_of(job, site.partitions[goal.partition], site.types)
    return _Kinds(shapes, numbers)


def _size(job: WorkJob, goal: Goal) -> _Size:
    return goal.partition, job.processors, job.whole_nodes, job.cores, job.nodes, job.others


def _row(place: int, job: WorkJob, goal: Goal, kinds: _Kinds, site: Site) -> JobRow:
    """What a job is to the ranking, without the indices of its groups.

    A pool counts as nodes with one core each, so that sizes are the same parts of both.
    """
    size = _size(job, goal)
    shape, is_pool = kinds.shapes[size], site.partitions[goal.partition].is_pool
    return JobRow(
        id=place + 1,
        association=NO_GROUP,
        queue=NO_GROUP,
        qos=NO_GROUP,
        partition=goal.partition,
        application=NO_GROUP,
        class_value=0,
        urgency=_USUAL_URGENCY,
        nodes=job.processors if is_pool else shape.nodes,
        vcore=MILLICORES if is_pool else shape.resources[VCORE],
        shape=kinds.numbers[size],
        time_limit_s=job.limit_s,
        submitted_at=job.submit_s,
        eligible_at=job.submit_s,
        fixed_priority=None,
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
