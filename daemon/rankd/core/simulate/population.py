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
from rankd.core.simulate.site import MILLICORES, Site, leaf_of, shape_of, whole_shape
from rankd.core.simulate.trace import WorkJob

DEFAULT_ACCOUNT = "default"
_USUAL_URGENCY = 16


_Size = tuple[int, int, int]
"""A job's processors, its whole nodes (0: it shares nodes), and the cores that it needs on each of these."""


class _Kinds(NamedTuple):
    """The shapes of jobs by their size, and the indices of these shapes."""

    shapes: dict[_Size, Shape]
    numbers: dict[_Size, int]


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs of a simulation; job ``i`` has the id ``i + 1``, in the order of submission.

    ``accounts``: of each job. ``leaves``: the queue id of each. ``shapes``: by index in ``columns``. ``totals``: what a
    job of each shape counts with in quotas. ``rates`` float64 (n,): billing units per second while a job runs.
    ``runs_s``, ``limits_s`` float64 (n,). ``processors`` int64 (n,). ``expected_s`` float64 (n,): the run time by which
    cycles plan, the limit unless a :class:`.Predictor` writes another one at a job's submission.
    """

    jobs: Sequence[WorkJob]
    tree: AccountTree
    accounts: Sequence[str]
    columns: JobColumns
    shapes: Sequence[Shape]
    totals: Sequence[dict[str, int]]
    rates: FloatArray
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
    kinds = shapes, _ = _kinds_of(site, jobs)
    queues = {name: leaf_of(site.partition, name) for name in {job.queue for job in jobs}}
    leaves = {name: queue_ids[site.partition.name, path.lower()] for name, path in queues.items()}
    qos = next((place for place, one in enumerate(site.qos) if one.name == site.default_qos), NO_GROUP)
    usage_factor = site.qos[qos].usage_factor if qos != NO_GROUP else 1.0
    billing = site.priority.fairshare.billing
    totals = {size: _total(size, shape) for size, shape in shapes.items()}
    prices = {
        size: billing_rate(totals[size], 1, billing, usage_factor)
        if shape.exclusive
        else billing_rate(shape.resources, shape.nodes, billing, usage_factor)
        for size, shape in shapes.items()
    }
    associations = [tree.user_indices[account, job.user] for account, job in zip(accounts, jobs, strict=True)]
    return Population(
        jobs=jobs,
        tree=tree,
        accounts=accounts,
        columns=JobColumns.from_rows(_rows(jobs, associations, leaves, qos, kinds)),
        shapes=list(shapes.values()),
        totals=list(totals.values()),
        rates=np.array([prices[_size(job)] for job in jobs], dtype=np.float64),
        runs_s=np.array([job.run_s for job in jobs], dtype=np.float64),
        limits_s=np.array([job.limit_s for job in jobs], dtype=np.float64),
        expected_s=np.array([job.limit_s for job in jobs], dtype=np.float64),
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
    )


def _kinds_of(site: Site, jobs: Sequence[WorkJob]) -> _Kinds:
    shapes: dict[_Size, Shape] = {}
    numbers: dict[_Size, int] = {}
    for job in jobs:
        size = _size(job)
        if size not in shapes:
            numbers[size] = len(shapes)
            whole = whole_shape(job, site.nodes, site.partition.name)
            shapes[size] = whole or shape_of(job.processors, site.nodes, site.partition.name)
    return _Kinds(shapes, numbers)


def _size(job: WorkJob) -> _Size:
    return job.processors, job.whole_nodes, job.cores


def _total(size: _Size, shape: Shape) -> dict[str, int]:
    """What a job counts with, on all its nodes together: whole nodes as in the trace."""
    return {VCORE: size[0] * MILLICORES} if shape.exclusive else scaled(shape.resources, shape.nodes)


def _rows(
    jobs: Sequence[WorkJob], associations: Sequence[int], leaves: Mapping[str, int], qos: int, kinds: _Kinds
) -> list[JobRow]:
    """What each job is to the ranking."""
    shapes, numbers = kinds
    return [
        JobRow(
            id=place + 1,
            association=association,
            queue=leaves[job.queue],
            qos=qos,
            partition=0,
            application=NO_GROUP,
            class_value=0,
            urgency=_USUAL_URGENCY,
            nodes=shapes[_size(job)].nodes,
            vcore=shapes[_size(job)].resources[VCORE],
            shape=numbers[_size(job)],
            time_limit_s=job.limit_s,
            submitted_at=job.submit_s,
            eligible_at=job.submit_s,
            fixed_priority=None,
        )
        for place, (job, association) in enumerate(zip(jobs, associations, strict=True))
    ]


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
