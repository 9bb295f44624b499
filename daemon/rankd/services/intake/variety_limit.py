"""The limits of how different pending jobs may be: shapes, constraints and applications of a user, and all shapes.

Jobs of equal shape cost the scheduler little more than one of them; each other shape is tried in every cycle. Nobody
has more different shapes than pending jobs. So a user with fewer pending jobs than the limits allow costs nothing here.
For any other user, and for all users together, the intake keeps what their pending jobs have, as numbers. A set is
read again, at most every :data:`AGAIN_S`, when a limit is reached. Jobs that are being stored while a user passes that
number count from the second reading on. There are not more such jobs than the limit allows.

Keys that other intakes add are added as soon as a transaction sees them. If they make a set too large, the transaction
that is to store jobs reads the set again (:meth:`VarietyLimits.is_within`): then nobody else can add anything.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from rankd.core.admission.fit import shape_of
from rankd.core.errors import AboveLimit
from rankd.core.model.job import AcceptedJob
from rankd.core.model.setting import AdmissionSettings
from rankd.services.intake.pending_limit import AGAIN_S, ALL, SHARE, Whose
from rankd.store.record.pending_variety import Variety

MOST_SHAPES_KNOWN = 10_000
"""Shapes whose numbers are remembered. When there are more, all are computed again."""

Keys = tuple[int | None, int | None, int | None]
"""What a job has of each kind, in the order of :class:`Variety`; None for nothing."""

_ADVICE = "submit again when some have started, or ask an administrator"


class More(NamedTuple):
    """What others have stored since this intake has counted: pending jobs and tasks by name, and the keys of jobs."""

    numbers: Mapping[Whose, int] = {}
    variety: Mapping[str | None, Variety] = {}


class _Limit(NamedTuple):
    """A limit of one kind."""

    setting: str
    kind: str
    most: int

    def refusal(self, name: str | None) -> AboveLimit:
        """The error of a job above it. ``name``: whose jobs are too different."""
        whose = "all users together have" if name is ALL else f"user '{name}' has"
        message = (
            f"{whose} pending jobs of {self.most} different {self.kind}, as many as admission.{self.setting} allows; "
            f"{_ADVICE}"
        )
        return AboveLimit(f"too_many_{self.kind}", message)


class _Held:
    """What the pending jobs of a user, or of all, have of each kind, and what was added since that was read."""

    def __init__(self) -> None:
        self.known = Variety(set(), set(), set())
        self.added = Variety(set(), set(), set())
        self.again_at: float | None = None
        """When it may be read again; None before it was read."""
        self.is_shared = False
        """Whether others have added something since it was read."""

    def add(self, kind: int, key: int) -> None:
        """Add a key of one kind."""
        self.known[kind].add(key)
        self.added[kind].add(key)

    def replace(self, read: Variety, again_at: float) -> None:
        """Use what was read. What was added since the reading before may not be stored yet, and stays."""
        self.known = Variety(*(one | added for one, added in zip(read, self.added, strict=True)))
        self.added = Variety(set(), set(), set())
        self.again_at = again_at
        self.is_shared = False


class _New(NamedTuple):
    """A key that a job adds: to whose, of which kind, and the limit of that."""

    name: str | None
    held: _Held
    kind: int
    key: int
    limit: _Limit


class VarietyLimits:
    """``number`` returns the pending jobs of a user, or of :data:`ALL`; None if they were not counted yet.

    ``read`` reads the variety of a user's pending jobs, or of those of :data:`ALL`.
    """

    def __init__(
        self,
        settings: Callable[[], AdmissionSettings],
        number: Callable[[str | None], int | None],
        read: Callable[[str | None], Awaitable[Variety]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._number = number
        self._read = read
        self._clock = clock
        self._held: dict[str | None, _Held] = {}
        self._shapes: dict[tuple[object, ...], int] = {}
        self._one_by_one: defaultdict[str | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._exact: dict[str | None, Variety] = {}
        """What the present transaction has read."""
        self._passed: set[str | None] = set()
        """Whose jobs the present transaction stores."""

    async def start(self) -> None:
        """Read the shapes of all users, if they may be too many, so that no submission waits for that."""
        if self._is_crowded(ALL):
            await self._look_again(ALL)

    async def reserve(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """Add the jobs to what their users have; returns the refusals by index."""
        names = [name for name in (ALL, *{job.user for job in jobs}) if self._is_crowded(name)]
        if not names:
            return {}
        wanted = self._varieties_of(jobs)
        different = {(job.user, keys) for job, keys in zip(jobs, wanted, strict=True)}
        await self._make_room(names, different)
        if all(self._knows(name, keys) for user, keys in different for name in (user, ALL)):
            return {}
        return self._one_after_the_other(jobs, wanted)

    async def refusal_of(self, job: AcceptedJob) -> AboveLimit | None:
        """Why the job would be refused. It is not added."""
        if not (names := [name for name in (ALL, job.user) if self._is_crowded(name)]):
            return None
        keys = self._variety_of(job)
        await self._make_room(names, {(job.user, keys)})
        return next(iter(self._full(self._new_of(job.user, keys))), None)

    def is_within(self, jobs: Sequence[AcceptedJob], more: More, read: Callable[[str | None], Variety]) -> bool:
        """Whether jobs of :meth:`reserve` may be stored in the present transaction. It runs on the writer's thread.

        ``more``: what others have stored that was not added yet. ``read`` reads a variety in the transaction.
        """
        own: dict[str | None, set[Keys]] = {}
        crowded = [name for name in (ALL, *{job.user for job in jobs}) if self._may_be_crowded(name, more)]
        if crowded:
            for job, keys in zip(jobs, self._varieties_of(jobs), strict=True):
                for name in (ALL, job.user):
                    own.setdefault(name, set()).add(keys)
        if not all(self._is_within(name, own[name], more, read) for name in crowded):
            return False
        self._passed.update(crowded)
        return True

    def _is_within(self, name: str | None, own: set[Keys], more: More, read: Callable[[str | None], Variety]) -> bool:
        held, others = self._held.get(name), more.variety.get(name)
        if held is not None and others is None and not held.is_shared:
            return name not in self._exact
        if held is not None and self._has_room(name, held.known, own, others):
            return name not in self._exact
        if name in self._passed or name in self._exact:
            return False  # what this transaction stores is not in what it would read
        exact = self._exact[name] = read(name)
        return all(self._adds_nothing(exact, keys) for keys in own) or self._has_room(name, exact, own, None)

    @staticmethod
    def _adds_nothing(known: Variety, keys: Keys) -> bool:
        return all(key is None or key in of_kind for key, of_kind in zip(keys, known, strict=True))

    def _has_room(self, name: str | None, known: Variety, own: set[Keys], others: Variety | None) -> bool:
        """Whether what is known, these jobs' keys, and those of others are within the limits together."""
        for kind, limit in enumerate(self._limits(name)):
            added = {keys[kind] for keys in own} - {None} | (set() if others is None else others[kind])
            if len(known[kind]) + len(added - known[kind]) > limit.most:  # what is known is large: it is not copied
                return False
        return True

    def _may_be_crowded(self, name: str | None, more: More) -> bool:
        number = self._number(name)
        return number is None or number + more.numbers.get(name, 0) > self._most_without(name)

    def settle(self, more: More) -> None:
        """The transaction has ended. Add what others have stored."""
        for name, exact in self._exact.items():
            self._held[name] = fresh = _Held()  # jobs that are on their way are checked again before they are stored
            fresh.replace(exact, self._clock() + AGAIN_S)
        for name, others in more.variety.items():
            if (held := self._held.get(name)) is not None:
                held.is_shared |= name not in self._exact
                for kind, keys in enumerate(others):
                    held.known[kind].update(keys)
                    held.added[kind].update(keys)
        self._exact, self._passed = {}, set()

    async def _make_room(self, names: Collection[str | None], wanted: Collection[tuple[str, Keys]]) -> None:
        """Read again what those have for which the wanted keys are too many by what is known."""
        for name in names:
            own = [keys for user, keys in wanted if name in (ALL, user)]
            if not self._fit(name, own):
                await self._look_again(name)

    def _knows(self, name: str | None, keys: Keys) -> bool:
        """Whether a job with these keys adds nothing."""
        held = self._held.get(name)
        return held is None or all(key is None or key in known for key, known in zip(keys, held.known, strict=False))

    def _is_crowded(self, name: str | None) -> bool:
        """Whether there may be too many different jobs. Forgets what is known of others."""
        number = self._number(name)
        if number is None or number > self._most_without(name):
            return True
        self._held.pop(name, None)
        return False

    def _most_without(self, name: str | None) -> int:
        """The largest number of pending jobs that can't exceed a limit, however different they are."""
        rule = self._settings()
        if name is ALL:
            return rule.max_shapes
        return min(rule.max_shapes_per_user, rule.max_constraints_per_user, rule.max_applications_per_user)

    def _limits(self, name: str | None) -> tuple[_Limit, ...]:
        """The limits by kind, in the order of :class:`Variety`."""
        rule = self._settings()
        if name is ALL:
            return (_Limit("max_shapes", "shapes", rule.max_shapes),)
        return (
            _Limit("max_shapes_per_user", "shapes", rule.max_shapes_per_user),
            _Limit("max_constraints_per_user", "constraints", rule.max_constraints_per_user),
            _Limit("max_applications_per_user", "applications", rule.max_applications_per_user),
        )

    def _fit(self, name: str | None, wanted: Collection[Keys]) -> bool:
        held = self._held.setdefault(name, _Held())
        if held.again_at is None:
            return False
        if all(self._knows(name, keys) for keys in wanted):
            return True
        for kind, limit in enumerate(self._limits(name)):
            new = {keys[kind] for keys in wanted} - held.known[kind] - {None}
            if len(held.known[kind]) + len(new) > limit.most:
                return False
        return True

    async def _look_again(self, name: str | None) -> None:
        """Read what the pending jobs have, unless that was done a moment ago."""
        async with self._one_by_one[name]:
            begun = self._clock()
            held = self._held.setdefault(name, _Held())
            if held.again_at is not None and begun < held.again_at:
                return
            read = await self._read(name)
            ended = self._clock()
            held.replace(read, ended + max(AGAIN_S, SHARE * (ended - begun)))

    def _one_after_the_other(self, jobs: Sequence[AcceptedJob], wanted: Sequence[Keys]) -> Mapping[int, AboveLimit]:
        """Add the jobs that fit, in their order. Does not wait, so that nothing else is added meanwhile."""
        refused: dict[int, AboveLimit] = {}
        for place, (job, keys) in enumerate(zip(jobs, wanted, strict=True)):
            new = self._new_of(job.user, keys)
            if full := self._full(new):
                refused[place] = full[0]
                continue
            for added in new:
                added.held.add(added.kind, added.key)
        return refused

    @staticmethod
    def _full(new: Sequence[_New]) -> list[AboveLimit]:
        """The refusals of what a job adds where there is no room."""
        return [one.limit.refusal(one.name) for one in new if len(one.held.known[one.kind]) >= one.limit.most]

    def _new_of(self, user: str, keys: Keys) -> list[_New]:
        """What a job adds, for its user and for all."""
        return [one for name in (user, ALL) for one in self._new(name, keys)]

    def _new(self, name: str | None, keys: Keys) -> list[_New]:
        """Where a job adds something."""
        held = self._held.get(name)
        if held is None:
            return []
        return [
            _New(name, held, kind, key, limit)
            for kind, limit in enumerate(self._limits(name))
            if (key := keys[kind]) is not None and key not in held.known[kind]
        ]

    def _varieties_of(self, jobs: Sequence[AcceptedJob]) -> list[Keys]:
        """The keys of each job. Most jobs of a message are like the one before, in what counts here."""
        found: list[Keys] = []
        before: AcceptedJob | None = None
        for job in jobs:
            found.append(found[-1] if before is not None and _is_like(job, before) else self._variety_of(job))
            before = job
        return found

    def _variety_of(self, job: AcceptedJob) -> Keys:
        """A job's keys by kind; None where it has nothing of a kind."""
        request = job.request
        amounts = tuple(job.resources.items())
        parts = (job.partition, job.nodes, job.min_nodes, amounts, request.constraints, request.exclusive)
        if parts not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES_KNOWN:
                self._shapes.clear()
            self._shapes[parts] = shape_of(job).key()
        application = hash((job.queue, request.application)) if request.application else None
        return self._shapes[parts], hash(request.constraints) if request.constraints else None, application


def _is_like(job: AcceptedJob, before: AcceptedJob) -> bool:
    """Whether two jobs surely have the same keys: one job twice, or two that admission gave the same values."""
    if job is before:
        return True
    one, other = job.request, before.request
    return (
        job.resources is before.resources
        and one.application == other.application
        and one.constraints == other.constraints
        and one.exclusive == other.exclusive
        and (job.nodes, job.min_nodes, job.queue, job.partition)
        == (before.nodes, before.min_nodes, before.queue, before.partition)
    )
