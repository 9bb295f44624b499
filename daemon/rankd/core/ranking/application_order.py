"""Applications inside their leaf queue: how much each uses, which are held back, and their order.

This module has the rules that all sorting policies share. The policies are plugins
(:mod:`rankd.core.ranking.application_sort`). Source: YuniKorn's "Sorting Policies", and "Priority Scheduling" for the
effect of priority. A job without an application counts as its own application, which is running, was created at the
job's submission, and uses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from rankd.core.model.application import ApplicationState
from rankd.core.model.quantity import Resources
from rankd.core.ranking.application_sort import ApplicationSortPolicy, Candidate, Shares, SortKey
from rankd.core.ranking.columns import NO_GROUP, BoolArray, IntArray, JobColumns
from rankd.core.ranking.order import Applications
from rankd.core.ranking.priority import INT32_MIN
from rankd.core.ranking.queue_view import QueueView

RUNNING = ApplicationState.RUNNING.value

Leaf = tuple[QueueView, Resources]
"""A queue and its partition's total."""

Entry = tuple[int, int]
"""An application with work: (application, 0), or (-1, job) for a job that is its own application."""

_Key = tuple[int, int, float, bool, int]


def queues_by_id(queues: Sequence[Sequence[QueueView]], totals: Sequence[Resources]) -> dict[int, Leaf]:
    """All queues, each with its partition's total."""
    return {view.id: (view, total) for views, total in zip(queues, totals, strict=True) for view in views}


def usage_shares(used: Resources, view: QueueView, total: Resources) -> Shares:
    """The shares of the leaf that an application uses, one per type, the largest first.

    They are compared in this order; a missing share counts as 0. The amount of each type is divided by the first
    positive one of: the leaf's guarantee, its effective maximum, the partition's total. If none is positive, it is
    divided by 1, as in YuniKorn.

    >>> from rankd.core.model.queue import QueueProperties
    >>> leaf = QueueView(id=1, path="root.a", parent=0, properties=QueueProperties(), guaranteed={"vcore": 4000})
    >>> usage_shares({"vcore": 1000, "gpu": 1}, leaf, {"vcore": 9000, "gpu": 2})
    (0.5, 0.25)
    """
    sources = (view.guaranteed, view.effective_max, total)
    shares = (amount / _first_positive(kind, sources) for kind, amount in used.items() if amount > 0)
    return tuple(sorted(shares, reverse=True))


def _first_positive(kind: str, sources: Iterable[Mapping[str, int]]) -> int:
    return next((source[kind] for source in sources if source.get(kind, 0) > 0), 1)


def usage_places(applications: Applications, leaves: Mapping[int, Leaf]) -> IntArray:
    """The places of applications by usage, according to the policies of their leaves, int64 (n_applications,).

    Equal keys give equal places. The place is 0 for an application that uses nothing, and for all applications of a
    leaf whose policy does not use usage. Only places of the same leaf can be compared with each other.
    """
    places = np.zeros(len(applications.created_at), dtype=np.int64)
    policies: dict[str, ApplicationSortPolicy] = {}
    keys: dict[str, dict[int, SortKey]] = {}
    for application, used in applications.used.items():
        leaf = leaves.get(int(applications.queues[application]))
        policy = None if leaf is None else usage_policy(leaf[0])
        if leaf is not None and policy is not None:
            policies[policy.name] = policy
            keys.setdefault(policy.name, {})[application] = policy.key(usage_shares(used, *leaf))
    for name, own in keys.items():
        nothing = policies[name].key(())
        order = {key: place for place, key in enumerate(sorted({nothing, *own.values()}))}
        for application, key in own.items():
            places[application] = order[key] - order[nothing]
    return places


def held_back(
    jobs: JobColumns, priorities: IntArray, applications: Applications, leaves: Mapping[int, Leaf]
) -> frozenset[int]:
    """The applications that the policy of their leaf holds back. Running ones are never held back."""
    by_leaf: dict[int, list[int]] = {}
    for application, state in applications.states.items():
        if state != RUNNING:
            by_leaf.setdefault(int(applications.queues[application]), []).append(application)
    filtering = [
        (policy, queue, leaves[queue][0].properties.sort_priority)
        for queue in by_leaf
        if queue in leaves and (policy := filter_policy(leaves[queue][0])) is not None
    ]
    if not filtering:
        return frozenset()
    best = best_priorities(jobs, priorities, applications)
    return frozenset().union(
        *(
            _held_back_by(policy, by_leaf[queue], applications, best, by_priority=by_priority)
            for policy, queue, by_priority in filtering
        )
    )


def usage_policy(leaf: QueueView) -> ApplicationSortPolicy | None:
    """The policy of the leaf, if it orders applications by usage; else None."""
    policy = leaf.application_sort
    return policy if policy is not None and policy.goes_by_usage else None


def filter_policy(leaf: QueueView) -> ApplicationSortPolicy | None:
    """The policy of the leaf, if it may hold applications back; else None."""
    policy = leaf.application_sort
    return policy if policy is not None and policy.holds_back else None


def _held_back_by(
    policy: ApplicationSortPolicy,
    waiting: Iterable[int],
    applications: Applications,
    best: Mapping[int, int],
    *,
    by_priority: bool,
) -> set[int]:
    def age(application: int) -> tuple[float, int]:
        return float(applications.created_at[application]), int(applications.id_places[application])

    oldest_first = sorted(waiting, key=age)
    candidates = [Candidate(state=applications.states[a], priority=best.get(a)) for a in oldest_first]
    passing = set(policy.let_in(candidates, by_priority=by_priority))
    return {application for place, application in enumerate(oldest_first) if place not in passing}


def best_priorities(jobs: JobColumns, priorities: IntArray, applications: Applications) -> dict[int, int]:
    """The highest priority of each application with work.

    An application with a given pending amount, but without jobs, has the lowest priority.
    """
    best = {application: INT32_MIN for application, amount in applications.pending.items() if any(amount.values())}
    places = np.flatnonzero(jobs.eligible & (jobs.applications != NO_GROUP))
    for application, priority in zip(jobs.applications[places].tolist(), priorities[places].tolist(), strict=True):
        best[application] = max(priority, best.get(application, priority))
    return best


def jobs_of(applications: Collection[int], jobs: JobColumns) -> BoolArray:
    """Which jobs belong to these applications."""
    return np.isin(jobs.applications, sorted(applications))


def application_order(
    jobs: JobColumns,
    priorities: IntArray,
    applications: Applications,
    leaves: Mapping[int, Leaf],
    held: Collection[int],
) -> dict[int, list[Entry]]:
    """By leaf: the applications with work that are not ``held`` back, the first to be served first.

    The order is by priority (if it counts in the leaf), the policy's key, creation, jobs that are their own application
    before named ones, id.
    """
    keys: dict[int, dict[Entry, _Key]] = {}
    by_usage = usage_places(applications, leaves)
    for application, best in best_priorities(jobs, priorities, applications).items():
        queue = int(applications.queues[application])
        own = keys.setdefault(queue, {})
        if application not in held:
            created, id_place = float(applications.created_at[application]), int(applications.id_places[application])
            first = -best if leaves[queue][0].properties.sort_priority else 0
            own[application, 0] = (first, int(by_usage[application]), created, True, id_place)
    for place in np.flatnonzero(jobs.eligible & (jobs.applications == NO_GROUP)).tolist():
        queue, job = int(jobs.queues[place]), int(jobs.ids[place])
        first = -int(priorities[place]) if leaves[queue][0].properties.sort_priority else 0
        keys.setdefault(queue, {})[NO_GROUP, job] = (first, 0, float(jobs.submitted_at[place]), False, job)
    return {queue: sorted(own, key=own.__getitem__) for queue, own in keys.items()}
