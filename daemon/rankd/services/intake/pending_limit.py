"""The limits of pending jobs: of a user, of an account, and of all users together (``admission.max_pending…``).

The intake is the only service that adds jobs, so it keeps the numbers itself: each is at least the true one. A
submission adds to them before it is stored, without waiting for anything, so that submissions at the same time can't
pass a limit together. Jobs that start or end are not subtracted. Instead, the pending jobs are counted when a number
reaches its limit, but not more often than every :data:`AGAIN_S`: a user at the limit costs one count per second.

Jobs that are queued again after a lost node are not refused; they count from the next count on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from rankd.core.errors import AboveLimit
from rankd.core.model.job import AcceptedJob
from rankd.core.model.setting import AdmissionSettings

AGAIN_S = 1.0
"""Seconds between two counts of the same jobs. A count that takes long is repeated later: see :data:`SHARE`."""
SHARE = 20
"""Counts take at most one part in this many of the time."""

ALL = None
"""Stands for the jobs of all users where a user's name could stand."""


class OfAccount(NamedTuple):
    """Stands for the jobs in an account where a user's name could stand."""

    account: str


class TasksOf(NamedTuple):
    """Stands for the tasks of a user where a user's name could stand. Only users who submit arrays are counted so."""

    user: str


Whose = str | OfAccount | TasksOf | None
"""The jobs of a user, of an account, or of :data:`ALL`; or the tasks of a user."""

Key = tuple[str, str | None]
"""A user, and the key of one of the user's jobs."""


class PendingLimits:
    """The numbers of pending jobs.

    ``count`` counts the pending jobs of a user, an account, or :data:`ALL`. ``known`` returns those keys that belong to
    jobs.
    """

    def __init__(
        self,
        settings: Callable[[], AdmissionSettings],
        count: Callable[[Whose], Awaitable[int]],
        known: Callable[[Sequence[Key]], Awaitable[Collection[Key]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._count = count
        self._known_keys = known
        self._clock = clock
        self._most: dict[Whose, int] = {}
        self._unstored: defaultdict[Whose, int] = defaultdict(int)
        self._again_at: dict[Whose, float] = {}
        self._one_by_one: defaultdict[Whose, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A lock for each user: many first submissions of one user do not hold up another's."""

    async def start(self) -> None:
        """Count the pending jobs of all users. Afterwards, only a user's first submission waits for a count."""
        await self._recount(ALL)

    def most(self, name: Whose) -> int | None:
        """The number of pending jobs, or a larger one; None if they were not counted yet."""
        return self._most.get(name)

    async def reserve(self, jobs: Sequence[AcceptedJob], *, atomic: bool) -> Mapping[int, AboveLimit]:
        """Add the jobs to the numbers; returns the refusals by index. If ``atomic``, nothing is added beside a refusal.

        The jobs that were added must be given to :meth:`stored` afterwards, or to :meth:`lost`.
        """
        wanted = _numbers(jobs)
        if all(self._fits(name, number) for name, number in wanted.items()):
            self._add(wanted)
            return {}
        for name, number in wanted.items():
            if not self._fits(name, number):
                await self._recount(name)
        keys = [(job.user, job.request.key) for job in jobs if job.request.key is not None]
        over = any(not self._fits(name, number) for name, number in wanted.items())
        stored = await self._known_keys(keys) if keys and over else ()
        return self._one_after_the_other(jobs, frozenset(stored), atomic=atomic)

    def stored(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`reserve` are durable."""
        self._settle(_numbers(jobs), stored=True)

    def lost(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`reserve` could not be stored."""
        self._settle(_numbers(jobs), stored=False)

    def _settle(self, taken: Mapping[Whose, int], *, stored: bool) -> None:
        for name, number in taken.items():
            self._unstored[name] -= number
            if not stored and name in self._most:
                self._most[name] -= number

    async def reserve_moves(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """Add pending jobs to the accounts that they are to come into; returns the refusals by index.

        The jobs that were added must be given to :meth:`settle_moves` afterwards.
        """
        for name, number in Counter(OfAccount(job.account) for job in jobs).items():
            if not self._fits(name, number):
                await self._recount(name)
        refused: dict[int, AboveLimit] = {}
        for place, job in enumerate(jobs):
            name = OfAccount(job.account)
            if self._fits(name, 1):
                self._add({name: 1})
            else:
                refused[place] = self._refusal(name)
        return refused

    def settle_moves(self, jobs: Sequence[AcceptedJob], *, stored: bool) -> None:
        """These jobs of :meth:`reserve_moves` are durably in their accounts, or stay where they were."""
        self._settle(Counter(OfAccount(job.account) for job in jobs), stored=stored)

    def _one_after_the_other(
        self, jobs: Sequence[AcceptedJob], stored: Collection[Key], *, atomic: bool
    ) -> Mapping[int, AboveLimit]:
        """Add the jobs that fit, in their order. Does not wait, so that nothing else is added meanwhile."""
        refused: dict[int, AboveLimit] = {}
        added: list[AcceptedJob] = []
        for place, job in enumerate(jobs):
            is_new = (job.user, job.request.key) not in stored  # otherwise its key gives the present job again
            numbers = _numbers([job])
            full = [name for name, number in numbers.items() if is_new and not self._fits(name, number)]
            if full:
                refused[place] = self._refusal(full[0])
            else:
                added.append(job)
                self._add(numbers)
        if atomic and refused:
            self.lost(added)
        return refused

    def _limit(self, name: Whose) -> int:
        settings = self._settings()
        if isinstance(name, TasksOf):
            return settings.max_pending_tasks_per_user
        if isinstance(name, OfAccount):
            return settings.max_pending_per_account
        return settings.max_pending if name is ALL else settings.max_pending_per_user

    def _fits(self, name: Whose, number: int) -> bool:
        most, of_all = self._most.get(name), self._most.get(ALL)
        if isinstance(name, OfAccount) and of_all is not None and of_all + number <= self._limit(name):
            return True  # all jobs together would fit, so that this account's need not be counted
        return most is not None and most + number <= self._limit(name)

    def _add(self, wanted: Mapping[Whose, int]) -> None:
        for name, number in wanted.items():
            if name in self._most:
                self._most[name] += number
            self._unstored[name] += number
            if isinstance(name, str) and TasksOf(name) in self._most and TasksOf(name) not in wanted:
                self._most[TasksOf(name)] += number

    async def _recount(self, name: Whose) -> None:
        """Count again, unless that was done a moment ago. What is being stored meanwhile is added in any case."""
        async with self._one_by_one[name]:
            begun = self._clock()
            if name in self._most and begun < self._again_at[name]:
                return
            unstored, before = self._unstored[name], self._most.get(name, 0)
            counted = await self._count(name)
            added = max(0, self._most.get(name, 0) - before)
            self._most[name] = counted + unstored + added
            ended = self._clock()
            self._again_at[name] = ended + max(AGAIN_S, SHARE * (ended - begun))

    def _refusal(self, name: Whose) -> AboveLimit:
        limit = self._limit(name)
        if isinstance(name, TasksOf):
            message = (
                f"user '{name.user}' would have more than {limit} pending tasks, as many as "
                "admission.max_pending_tasks_per_user allows; submit again when some have started, or a smaller array"
            )
        elif isinstance(name, OfAccount):
            message = (
                f"account '{name.account}' has {limit} pending jobs, as many as admission.max_pending_per_account "
                "allows; try again when some have started, or with another account"
            )
        elif name is ALL:
            message = (
                f"{limit} jobs of all users are pending, as many as admission.max_pending allows; "
                "submit again when some have started"
            )
        else:
            message = (
                f"user '{name}' has {limit} pending jobs, as many as admission.max_pending_per_user allows; "
                "submit again when some have started, cancel some, or ask an administrator"
            )
        return AboveLimit("too_many_pending", message)


def _numbers(jobs: Sequence[AcceptedJob]) -> Mapping[Whose, int]:
    """The number of jobs of each user, of each account and of all, and the tasks of users who submit arrays.

    Each single submission asks twice.
    """
    numbers: dict[Whose, int]
    if len(jobs) == 1:
        numbers = {jobs[0].user: 1, OfAccount(jobs[0].account): 1, ALL: 1}
    elif not jobs:
        return {}
    else:
        numbers = {ALL: len(jobs), **Counter(job.user for job in jobs)}
        for account, number in Counter(job.account for job in jobs).items():
            numbers[OfAccount(account)] = number
    if users := {job.user for job in jobs if job.array is not None}:
        for job in jobs:
            if job.user in users:
                numbers[TasksOf(job.user)] = numbers.get(TasksOf(job.user), 0) + job.n_tasks
    return numbers
