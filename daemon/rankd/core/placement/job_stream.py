"""Jobs of a leaf in a fixed order: all of them, or those of one application if the leaf's policy uses usage.

The position of a stream is its first job that has not been tried. Jobs of blocked kinds are skipped together by
comparing arrays. To skip a million jobs takes about a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.application_order import usage_policy, usage_shares
from rankd.core.ranking.application_sort import ApplicationSortPolicy, SortKey
from rankd.core.ranking.columns import NO_GROUP, BoolArray
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import QueueView

_FIRST_STEP, _LONGEST_STEP = 64, 65_536

StreamKey = tuple[float, SortKey, float, bool, int]


class Usage:
    """The present usage of a named application. ``key`` is the sort key that the leaf's policy makes of it."""

    def __init__(self, used: Resources, view: QueueView, total: Resources, policy: ApplicationSortPolicy) -> None:
        self._used = dict(used)
        self._leaf = (view, total)
        self._policy = policy
        self.key = policy.key(usage_shares(self._used, *self._leaf))

    def copy(self) -> Usage:
        """A copy to which amounts can be added without changing this one."""
        return Usage(self._used, *self._leaf, self._policy)

    def add(self, amount: Resources) -> None:
        """Add an amount to what is used."""
        for kind, value in amount.items():
            self._used[kind] = self._used.get(kind, 0) + value
        self.key = self._policy.key(usage_shares(self._used, *self._leaf))


class NamedApplication(msgspec.Struct):
    """An application in a leaf whose policy uses usage.

    ``created_at``: UTC seconds. ``id_place``: its place among all applications, sorted by id.
    """

    created_at: float
    id_place: int
    usage: Usage


class JobStream:
    """Jobs in their order, and the position ``at`` that the cycle has reached.

    ``application`` None: each job is its own application. ``nothing``: the key of such jobs, which count as using
    nothing.
    """

    __slots__ = ("_best_from", "_left", "application", "at", "by_priority", "key", "nothing", "waiting")

    def __init__(
        self, waiting: WaitingJobs, application: NamedApplication | None, nothing: SortKey = (), *, by_priority: bool
    ) -> None:
        self.waiting = waiting
        self.application = application
        self.nothing = nothing
        self.by_priority = by_priority
        self.at = 0
        self._left: int | None = None
        """The tasks of the array at ``at`` that have not been tried; None before the first."""
        self.key: StreamKey | None = None
        self._best_from = None if by_priority else np.maximum.accumulate(waiting.priorities[::-1])[::-1]

    def copy(self) -> JobStream:
        """A copy that goes on independently."""
        other, own = JobStream.__new__(JobStream), self.application
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.application = own and NamedApplication(own.created_at, own.id_place, own.usage.copy())
        return other

    @property
    def left(self) -> int | None:
        """The tasks of the array at ``at`` that have not been tried; None before its first one."""
        return self._left

    def is_done(self) -> bool:
        """Whether all jobs have been tried."""
        return self.at >= len(self.waiting.jobs)

    def best(self) -> int:
        """The highest priority of the jobs that have not been tried."""
        return int((self.waiting.priorities if self._best_from is None else self._best_from)[self.at])

    def step(self) -> None:
        """Go on behind the job at the front, or behind its next task if it is an array."""
        tasks = self.waiting.tasks
        if tasks is not None:
            self._left = (int(tasks[self.at]) if self._left is None else self._left) - 1
        if not self._left:
            self.pass_front()

    def pass_front(self) -> None:
        """Go on behind the job at the front, with all its tasks."""
        self._left = None
        self.at += 1

    def pass_rest(self) -> None:
        """Go on behind the array of which some tasks were tried; does nothing if there is none."""
        if self._left is not None:
            self.pass_front()

    def skip(self, blocked: BoolArray) -> None:
        """Skip the jobs at the front whose kinds are in ``blocked``, bool (n_kinds,)."""
        self._left = None
        kinds, step = self.waiting.kinds, _FIRST_STEP
        while self.at < len(kinds):
            passed = blocked[kinds[self.at : self.at + step]]
            first = int(passed.argmin())
            if not passed[first]:
                self.at += first
                return
            self.at += len(passed)
            step = min(step * 4, _LONGEST_STEP)

    def sort_key(self) -> StreamKey:
        """The key among the streams of a leaf.

        Its parts are: priority (if it counts), usage, creation, jobs without an application first, id.
        """
        waiting, at = self.waiting, self.at
        first = -int(waiting.priorities[at]) if self.by_priority else 0
        if self.application is None:
            submitted_at = 0.0 if waiting.submitted_at is None else float(waiting.submitted_at[at])
            return (first, self.nothing, submitted_at, False, int(waiting.jobs[at]))
        own = self.application
        return (first, own.usage.key, own.created_at, True, own.id_place)


def streams_of(waiting: WaitingJobs, view: QueueView, total: Resources, named: Applications) -> Iterator[JobStream]:
    """The streams of a leaf. If its policy uses usage: one per application, and one for all other jobs. Else one."""
    by_priority, policy = view.properties.sort_priority, usage_policy(view)
    if not len(waiting.jobs):
        return
    if policy is None or waiting.applications is None or (waiting.applications == NO_GROUP).all():
        yield JobStream(waiting, None, by_priority=by_priority)
        return
    order = np.argsort(waiting.applications, kind="stable")
    of, nothing = waiting.applications[order], policy.key(())
    starts = np.flatnonzero(np.diff(of, prepend=of[0] - 1))
    for start, end in zip(starts.tolist(), [*starts.tolist()[1:], len(of)], strict=True):
        places, application = order[start:end], int(of[start])
        own = WaitingJobs(
            jobs=waiting.jobs[places],
            priorities=waiting.priorities[places],
            kinds=waiting.kinds[places],
            submitted_at=None if waiting.submitted_at is None else waiting.submitted_at[places],
            tasks=None if waiting.tasks is None else waiting.tasks[places],
        )
        of_application = None
        if application != NO_GROUP:
            usage = Usage(named.used.get(application, {}), view, total, policy)
            of_application = _named(application, usage, named)
        yield JobStream(own, of_application, nothing, by_priority=by_priority)


def _named(application: int, usage: Usage, named: Applications) -> NamedApplication:
    return NamedApplication(
        created_at=float(named.created_at[application]),
        id_place=int(named.id_places[application]),
        usage=usage,
    )
