"""The limits of pending jobs and tasks: of a user, of an account, and of all together (``admission.max_pending…``).

An array is one pending job and many pending tasks; a single job is one of each.

Only intakes add jobs, so this one keeps the numbers itself: each is at least the true one. What other intakes add is
added as soon as a transaction sees it (:meth:`PendingLimits.add`), and each transaction looks before it writes. A
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
from functools import lru_cache
from typing import NamedTuple

from rankd.core.errors import AboveLimit
from rankd.core.model.job import AcceptedJob
from rankd.core.model.setting import AdmissionSettings
from rankd.services.intake.in_flight import InFlight

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
    """Stands for the tasks of a user, of an account, or of all, where a user's name could stand."""

    whose: str | OfAccount | None


Whose = str | OfAccount | TasksOf | None
"""The jobs of a user, of an account, or of :data:`ALL`; or their tasks."""
TASKS_OF_ALL = TasksOf(ALL)

Key = tuple[str, str | None]
"""A user, and the key of one of the user's jobs."""


class PendingLimits:
    """The numbers of pending jobs.

    ``count`` counts the pending jobs or tasks of a user, an account, or :data:`ALL`. ``known`` returns those keys that
    belong to jobs.
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
        self.before_count: Callable[[], Awaitable[None]] | None = None
        """Adds what others have stored, before it is counted."""
        self._clock = clock
        self._most: dict[Whose, int] = {}
        self._in_flight = InFlight[Whose]()
        self._again_at: dict[Whose, float] = {}
        self._one_by_one: defaultdict[Whose, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A lock for each user: many first submissions of one user do not hold up another's."""

    async def start(self) -> None:
        """Count the pending jobs and tasks of all. Afterwards, only a user's first submission waits for a count."""
        await self._recount(ALL)
        await self._recount(TASKS_OF_ALL)

    def most(self, name: Whose) -> int | None:
        """The number of pending jobs, or a larger one; None if they were not counted yet."""
        return self._most.get(name)

    async def reserve(self, jobs: Sequence[AcceptedJob], *, atomic: bool) -> Mapping[int, AboveLimit]:
        """Add the jobs to the numbers; returns the refusals by index. If ``atomic``, nothing is added beside a refusal.

        The jobs that were added must be given to :meth:`stored` afterwards, or to :meth:`lost`.
        """
        wanted = numbers_of(jobs)
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

    def add(self, wanted: Mapping[Whose, int]) -> None:
        """Others have stored as many more."""
        self._add(wanted)
        self._settle(wanted, stored=True)

    def is_within(self, names: Collection[Whose], more: Mapping[Whose, int]) -> bool:
        """Whether what was added for these names is within the limits, with what others have stored besides."""
        return all(self._fits(name, more.get(name, 0), more) for name in names)

    def stored(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`reserve` are durable."""
        self._settle(numbers_of(jobs), stored=True)

    def lost(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`reserve` could not be stored."""
        self._settle(numbers_of(jobs), stored=False)

    def _settle(self, taken: Mapping[Whose, int], *, stored: bool) -> None:
        for name, number in taken.items():
            self._in_flight.end(name, number, stored=stored)
            if not stored and name in self._most:
                self._most[name] -= number

    async def reserve_moves(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """Add pending jobs to the accounts that they are to come into; returns the refusals by index.

        The jobs that were added must be given to :meth:`settle_moves` afterwards.
        """
        return await self.reserve_more(list(map(of_move, jobs)))

    def settle_moves(self, jobs: Sequence[AcceptedJob], *, stored: bool) -> None:
        """These jobs of :meth:`reserve_moves` are durably in their accounts, or stay where they were."""
        for job in jobs:
            self.settle_more(of_move(job), stored=stored)

    async def reserve_more(self, wanted: Sequence[Mapping[Whose, int]]) -> Mapping[int, AboveLimit]:
        """Add each of these to the numbers, if it fits; returns the refusals by index.

        What was added must be given to :meth:`settle_more` afterwards.
        """
        for name, number in _sum(wanted).items():
            if not self._fits(name, number):
                await self._recount(name)
        refused: dict[int, AboveLimit] = {}
        for place, more in enumerate(wanted):
            full = [name for name, number in more.items() if not self._fits(name, number)]
            if full:
                refused[place] = self._refusal(full[0])
            else:
                self._add(more)
        return refused

    def settle_more(self, more: Mapping[Whose, int], *, stored: bool) -> None:
        """This part of :meth:`reserve_more` is durable, or did not take place."""
        self._settle(more, stored=stored)

    def _one_after_the_other(
        self, jobs: Sequence[AcceptedJob], stored: Collection[Key], *, atomic: bool
    ) -> Mapping[int, AboveLimit]:
        """Add the jobs that fit, in their order. Does not wait, so that nothing else is added meanwhile."""
        refused: dict[int, AboveLimit] = {}
        above: dict[tuple[str, str, int], AboveLimit] = {}  # nothing becomes smaller here: what does not fit never does
        added: list[AcceptedJob] = []
        for place, job in enumerate(jobs):
            is_new = (job.user, job.request.key) not in stored  # otherwise its key gives the present job again
            kind = job.user, job.account, job.n_tasks
            if is_new and kind in above:
                refused[place] = above[kind]
                continue
            numbers = of_kind(*kind)
            full = [name for name, number in numbers.items() if is_new and not self._fits(name, number)]
            if full:
                refused[place] = above[kind] = self._refusal(full[0])
            else:
                added.append(job)
                self._add(numbers)
        if atomic and refused:
            self.lost(added)
        return refused

    def _limit(self, name: Whose) -> int:
        settings = self._settings()
        if isinstance(name, TasksOf):
            if isinstance(name.whose, OfAccount):
                return settings.max_pending_tasks_per_account
            return settings.max_pending_tasks if name.whose is ALL else settings.max_pending_tasks_per_user
        if isinstance(name, OfAccount):
            return settings.max_pending_per_account
        return settings.max_pending if name is ALL else settings.max_pending_per_user

    def _fits(self, name: Whose, number: int, more: Mapping[Whose, int] | None = None) -> bool:
        """Whether as many more fit. ``more``: what is to be added by name; None: of all, as many as of this name."""
        limit = self._limit(name)
        if not isinstance(name, str):
            whole = TASKS_OF_ALL if isinstance(name, TasksOf) else ALL
            of_all = self._most.get(whole)
            if of_all is not None and of_all + (number if more is None else more.get(whole, 0)) <= limit:
                return True  # those of all together would fit, so that these need not be counted
        most = self._most.get(name)
        return most is not None and most + number <= limit

    def _add(self, wanted: Mapping[Whose, int]) -> None:
        for name, number in wanted.items():
            if name in self._most:
                self._most[name] += number
            self._in_flight.begin(name, number)

    async def _recount(self, name: Whose) -> None:
        """Count again, unless that was done a moment ago.

        Nobody knows whether a count has seen what is stored meanwhile. So it begins when what is being stored is, and
        what comes during the count is added in any case.
        """
        async with self._one_by_one[name]:
            if name in self._most and self._clock() < self._again_at[name]:
                return
            if self.before_count is not None:
                await self.before_count()
            await self._in_flight.settled(name)
            begun, unstored, before = self._clock(), self._in_flight.number(name), self._in_flight.total(name)
            counted = await self._count(name)
            self._most[name] = counted + unstored + self._in_flight.total(name) - before
            ended = self._clock()
            self._again_at[name] = ended + max(AGAIN_S, SHARE * (ended - begun))

    def _refusal(self, name: Whose) -> AboveLimit:
        limit = self._limit(name)
        if isinstance(name, TasksOf):
            return AboveLimit("too_many_pending", _message_of_tasks(name.whose, limit))
        if isinstance(name, OfAccount):
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


def _message_of_tasks(whose: str | OfAccount | None, limit: int) -> str:
    who, setting, other = f"user '{whose}'", "max_pending_tasks_per_user", "a smaller array"
    if isinstance(whose, OfAccount):
        who, setting = f"account '{whose.account}'", "max_pending_tasks_per_account"
        other = "a smaller array, or with another account"
    elif whose is ALL:
        who, setting = "all users together", "max_pending_tasks"
    return (
        f"{who} would have more than {limit} pending tasks, as many as admission.{setting} allows; "
        f"submit again when some have started, or {other}"
    )


def records_of(user: str, account: str, number: int) -> Mapping[Whose, int]:
    """What as many more records of pending jobs add, if their tasks are counted already."""
    return {user: number, OfAccount(account): number, ALL: number}


def of_move(job: AcceptedJob) -> Mapping[Whose, int]:
    """What a job adds that comes into another account."""
    account = OfAccount(job.account)
    return {account: 1, TasksOf(account): job.n_tasks}


def _sum(wanted: Sequence[Mapping[Whose, int]]) -> Mapping[Whose, int]:
    total: Counter[Whose] = Counter()
    for more in wanted:
        total.update(more)
    return total


def numbers_of(jobs: Sequence[AcceptedJob]) -> Mapping[Whose, int]:
    """The number of jobs of each user, of each account and of all, and of tasks of each. It is asked for twice."""
    if len(jobs) == 1:
        return _of_job(jobs[0])
    kinds = Counter((job.user, job.account, job.n_tasks) for job in jobs)  # 10,000 jobs are one kind or a few
    total: Counter[Whose] = Counter()
    for kind, number in kinds.items():
        total.update({name: more * number for name, more in of_kind(*kind).items()})
    return total


def _of_job(job: AcceptedJob) -> Mapping[Whose, int]:
    return of_kind(job.user, job.account, job.n_tasks)


@lru_cache(maxsize=4_096)
def of_kind(user: str, account: str, tasks: int) -> Mapping[Whose, int]:
    """What a job adds. Users submit many jobs that add the same."""
    of_account = OfAccount(account)
    jobs: dict[Whose, int] = {user: 1, of_account: 1, ALL: 1}
    return jobs | {TasksOf(user): tasks, TasksOf(of_account): tasks, TASKS_OF_ALL: tasks}
