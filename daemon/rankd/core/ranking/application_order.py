"""Applications inside their leaf queue: how much each uses, which may go on, and in which order.

The three sorting policies of YuniKorn: ``fifo`` by creation time, ``fair`` by usage, ``stateaware`` (deprecated
there) as ``fifo`` behind a filter that lets one new application in at a time. Source: "Sorting Policies", and
"Priority Scheduling" for what priority adds to them. A job without an application is one of its own: running,
created with its submission, using nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.applications import Applications
from rankd.core.ranking.columns import NO_GROUP, BoolArray, IntArray, JobColumns
from rankd.core.ranking.priority import INT32_MIN
from rankd.core.ranking.queue_forest import QueueView

RUNNING, STARTING, ACCEPTED = "running", "starting", "accepted"

Leaf = tuple[QueueView, Resources]
"""A leaf queue and its partition's total."""

EntryKey = tuple[int, int, float, int, int]


def leaves_of(queues: Sequence[Sequence[QueueView]], totals: Sequence[Resources]) -> dict[int, Leaf]:
    """All queues by id, each with its partition's total."""
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
    places = np.zeros(len(applications), dtype=np.int64)
    shares: dict[int, tuple[float, ...]] = {}
    for application, used in applications.used.items():
        leaf = leaves.get(int(applications.queues[application]))
        if leaf is not None and leaf[0].properties.sort_policy == "fair":
            shares[application] = usage_shares(used, *leaf)
    order = {key: place for place, key in enumerate(sorted({(), *shares.values()}))}
    for application, key in shares.items():
        places[application] = order[key]
    return places


def waiting_jobs(
    jobs: JobColumns, priorities: IntArray, applications: Applications, leaves: Mapping[int, Leaf]
) -> BoolArray | None:
    """Eligible jobs whose application the ``stateaware`` filter of its leaf holds back; None where it holds none.

    In such a leaf pass: all running applications; of those starting the oldest, with work or without; if none is
    starting, one accepted one with work: the oldest, or where priority counts that of the highest priority.
    """
    held_back: set[int] = set()
    best = _best_priorities(jobs, priorities, applications)
    for queue in {int(applications.queues[application]) for application in applications.states}:
        leaf = leaves.get(queue)
        if leaf is not None and leaf[0].properties.sort_policy == "stateaware":
            held_back |= _held_back(applications, queue, best, by_priority=leaf[0].properties.sort_priority)
    if not held_back:
        return None
    waiting: BoolArray = np.isin(jobs.applications, sorted(held_back)) & jobs.eligible
    return waiting


def _best_priorities(jobs: JobColumns, priorities: IntArray, applications: Applications) -> dict[int, int]:
    """The highest priority of each application with work; those with work but no jobs show the lowest."""
    best = {application: INT32_MIN for application, pending in applications.pending.items() if any(pending.values())}
    places = np.flatnonzero(jobs.eligible & (jobs.applications != NO_GROUP))
    for application, priority in zip(jobs.applications[places].tolist(), priorities[places].tolist(), strict=True):
        best[application] = max(priority, best.get(application, priority))
    return best


def _held_back(applications: Applications, queue: int, best: Mapping[int, int], *, by_priority: bool) -> set[int]:
    own = np.flatnonzero(applications.queues == queue).tolist()
    states = {application: applications.states.get(application, RUNNING) for application in own}

    def age(application: int) -> tuple[float, int]:
        return float(applications.created_at[application]), int(applications.id_places[application])

    def urgency(application: int) -> tuple[float, float, int]:
        return (-best[application] if by_priority else 0, *age(application))

    starting = [application for application, state in states.items() if state == STARTING]
    accepted = [application for application, state in states.items() if state == ACCEPTED and application in best]
    new = min(starting, key=age) if starting else min(accepted, key=urgency, default=None)
    return {application for application, state in states.items() if state != RUNNING and application != new}


def application_order(
    jobs: JobColumns,
    priorities: IntArray,
    applications: Applications,
    leaves: Mapping[int, Leaf],
    waiting: BoolArray | None,
) -> dict[int, list[tuple[int, int]]]:
    """By leaf the applications with work, first to be served first, as (application, job).

    A job that is its own application is ``(-1, its id)``; for named ones the job is 0. Leaves all of whose
    applications are held back have an empty list.
    """
    entries: dict[int, dict[tuple[int, int], EntryKey]] = {}
    fair = fair_places(applications, leaves)
    held = np.zeros(len(jobs), dtype=bool) if waiting is None else waiting
    for place in np.flatnonzero(jobs.eligible).tolist():
        queue, application = int(jobs.queues[place]), int(jobs.applications[place])
        own = entries.setdefault(queue, {})
        if held[place]:
            continue
        name = (application, int(jobs.ids[place]) if application == NO_GROUP else 0)
        priority = int(priorities[place]) if leaves[queue][0].properties.sort_priority else 0
        if application == NO_GROUP:
            own[name] = (-priority, 0, float(jobs.submitted_at[place]), 0, name[1])
        else:
            own[name] = min(own.get(name, _LAST), _key(applications, application, -priority, int(fair[application])))
    for application in _without_jobs(jobs, applications):
        queue = int(applications.queues[application])
        view = leaves[queue][0]
        held_back = held_back_of(applications, queue, jobs, priorities, view)
        own = entries.setdefault(queue, {})
        if application not in held_back:
            last = -INT32_MIN if view.properties.sort_priority else 0
            own[application, 0] = _key(applications, application, last, int(fair[application]))
    return {queue: sorted(own, key=own.__getitem__) for queue, own in entries.items()}
