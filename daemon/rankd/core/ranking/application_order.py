"""Applications inside their leaf queue: how much each uses, which are held back, and in which order they go.

The three sorting policies of YuniKorn: ``fifo`` by creation time, ``fair`` by usage, ``stateaware`` (deprecated
there) as ``fifo`` behind a filter that lets in one new application at a time. Source: "Sorting Policies", and
"Priority Scheduling" for what priority adds to them. A job without an application is one of its own: running,
created with its submission, using nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP, BoolArray, IntArray, JobColumns
from rankd.core.ranking.order import Applications
from rankd.core.ranking.priority import INT32_MIN
from rankd.core.ranking.queue_forest import QueueView

RUNNING, STARTING, ACCEPTED = "running", "starting", "accepted"

Leaf = tuple[QueueView, Resources]
"""A queue and its partition's total."""

Entry = tuple[int, int]
"""An application with work: (application, 0), or (-1, job) for a job that is its own."""

_Key = tuple[int, int, float, bool, int]


def queues_by_id(queues: Sequence[Sequence[QueueView]], totals: Sequence[Resources]) -> dict[int, Leaf]:
    """All queues, each with its partition's total."""
    return {view.id: (view, total) for views, total in zip(queues, totals, strict=True) for view in views}


def usage_shares(used: Resources, view: QueueView, total: Resources) -> tuple[float, ...]:
    """Shares of what an application uses, largest first; compared from the largest down, missing ones are 0.

    Each type is measured by the first positive of the leaf's guarantee, its effective maximum, the partition's
    total; by itself where there is none, as in YuniKorn.

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


def fair_places(applications: Applications, leaves: Mapping[int, Leaf]) -> IntArray:
    """Places by usage in ``fair`` leaves, int64 (n_applications,): equal for equal usage, 0 for none and elsewhere."""
    places = np.zeros(len(applications.created_at), dtype=np.int64)
    shares: dict[int, tuple[float, ...]] = {}
    for application, used in applications.used.items():
        leaf = leaves.get(int(applications.queues[application]))
        if leaf is not None and leaf[0].properties.sort_policy == "fair":
            shares[application] = usage_shares(used, *leaf)
    order = {key: place for place, key in enumerate(sorted({(), *shares.values()}))}
    for application, key in shares.items():
        places[application] = order[key]
    return places


def held_back(
    jobs: JobColumns, priorities: IntArray, applications: Applications, leaves: Mapping[int, Leaf]
) -> frozenset[int]:
    """Applications that the ``stateaware`` filter of their leaf does not let pass.

    It lets pass all that run; of those that start the oldest, with work or without; if none starts, one accepted
    with work: the oldest, or where priority counts the one of the highest priority.
    """
    queues = {int(applications.queues[application]) for application in applications.states}
    views = (leaves[queue][0] for queue in queues if queue in leaves)
    filtering = [view for view in views if view.properties.sort_policy == "stateaware"]
    if not filtering:
        return frozenset()
    best = best_priorities(jobs, priorities, applications)
    return frozenset().union(*(_held_back_in(leaf, applications, best) for leaf in filtering))


def _held_back_in(leaf: QueueView, applications: Applications, best: Mapping[int, int]) -> set[int]:
    states = {a: state for a, state in applications.states.items() if applications.queues[a] == leaf.id}
    by_priority = leaf.properties.sort_priority

    def age(application: int) -> tuple[float, int]:
        return float(applications.created_at[application]), int(applications.id_places[application])

    starting = [application for application, state in states.items() if state == STARTING]
    accepted = [application for application, state in states.items() if state == ACCEPTED and application in best]
    let_in = min(starting, key=age, default=None)
    if let_in is None:
        let_in = min(accepted, key=lambda a: (-best[a] if by_priority else 0, *age(a)), default=None)
    return {application for application, state in states.items() if state != RUNNING and application != let_in}


def best_priorities(jobs: JobColumns, priorities: IntArray, applications: Applications) -> dict[int, int]:
    """The highest priority of each application with work; one whose work is given without jobs has the lowest."""
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
    """By leaf the applications with work, without those ``held`` back, first to be served first.

    By priority (where it counts), the policy's key, creation, own jobs before named applications, id.
    """
    keys: dict[int, dict[Entry, _Key]] = {}
    fair = fair_places(applications, leaves)
    for application, best in best_priorities(jobs, priorities, applications).items():
        queue = int(applications.queues[application])
        own = keys.setdefault(queue, {})
        if application not in held:
            created, id_place = float(applications.created_at[application]), int(applications.id_places[application])
            first = -best if leaves[queue][0].properties.sort_priority else 0
            own[application, 0] = (first, int(fair[application]), created, True, id_place)
    for place in np.flatnonzero(jobs.eligible & (jobs.applications == NO_GROUP)).tolist():
        queue, job = int(jobs.queues[place]), int(jobs.ids[place])
        first = -int(priorities[place]) if leaves[queue][0].properties.sort_priority else 0
        keys.setdefault(queue, {})[NO_GROUP, job] = (first, 0, float(jobs.submitted_at[place]), False, job)
    return {queue: sorted(own, key=own.__getitem__) for queue, own in keys.items()}
