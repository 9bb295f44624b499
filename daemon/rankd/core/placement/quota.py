"""The amounts that queues, users and groups may still take: configured maxima, ``maxapplications``, and ``limits``.

There is an `Account` for each queue that limits anything, and for each user or group that a queue's limits apply to:

- A limit that names a user replaces the limit of ``*``. Under ``*``, each user has an account of its own.
- Each of the user's groups that a limit names has one account. Users without such a group share that of group ``*``.

Every job that starts or gets a reservation is charged to all accounts on its path. The accounts of queues are before
those of users and groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from rankd.core.model.amount_text import shown_amount
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import Limit, limits_of
from rankd.core.model.reason_code import QUEUE_QUOTA, USER_LIMIT
from rankd.core.placement.problem import Tenant
from rankd.core.placement.queue_index import QueueIndex
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.queue_view import QueueView

Application = tuple[int, int]
"""A leaf and the index of a named application in it."""


APPLICATIONS = "applications"
"""What blocks a job if too many applications run."""


class Account:
    """The amounts that one queue, user or group may still take. ``applications`` None means any number.

    ``kept``: what reservations keep of the maximum, by resource type or ``applications``.
    """

    __slots__ = ("applications", "kept", "maximum", "name", "reason", "room", "running")

    def __init__(self, reason: str, name: str, maximum: Resources, most_applications: int) -> None:
        self.reason = reason
        self.name = name
        self.maximum = (maximum, most_applications)
        self.room = dict(maximum)
        self.kept: Resources = {}
        self.applications = most_applications or None
        self.running: set[Application] = set()

    def charge(self, amount: Mapping[str, int], application: Application | None, *, keeps: bool = False) -> None:
        """Reduce the room by ``amount``, and the applications by one, unless ``application`` runs already.

        ``application`` None: the job is its own application, which is always a new one. ``keeps``: for a reservation.
        """
        room = self.room
        for kind in room:
            room[kind] -= amount.get(kind, 0)
            if keeps:
                self.kept[kind] = self.kept.get(kind, 0) + amount.get(kind, 0)
        if self.applications is not None and application not in self.running:
            self.applications -= 1
            if keeps:
                self.kept[APPLICATIONS] = self.kept.get(APPLICATIONS, 0) + 1
            if application is not None:
                self.running.add(application)

    def blocks(self, amount: Mapping[str, int], application: Application | None) -> str | None:
        """The first resource with too little room, or ``applications``. None if the amount may be charged."""
        room = self.room
        for kind, value in amount.items():
            if value and kind in room and value > room[kind]:
                return kind
        if self.applications is not None and self.applications <= 0 and application not in self.running:
            return APPLICATIONS
        return None

    def explain(self, blocked: str) -> str:
        """The blocking fact. ``blocked``: the result of :meth:`blocks`."""
        resources, applications = self.maximum
        kept = self.kept.get(blocked, 0)
        if blocked == APPLICATIONS:
            fact, held = f"{self.name} is at its maximum of {applications} running applications", str(kept)
        else:
            most = shown_amount(blocked, resources[blocked])
            fact, held = f"{self.name} is at its maximum of {blocked} ({most})", shown_amount(blocked, kept)
        return f"{fact}; {held} of it is kept for jobs before it, which have reservations" if kept else fact


class Over(msgspec.Struct, frozen=True):
    """The account that blocks a job, and the blocking resource or ``applications``."""

    account: Account
    blocked: str


class QuotaBook:
    """All accounts of a partition during one cycle."""

    def __init__(self, index: QueueIndex, used: Mapping[int, Resources], tenants: Sequence[Tenant] = ()) -> None:
        self._index = index
        self._used = used
        self._of_queues: dict[int, Account] = {}
        self._of_limits: dict[tuple[int, str, str], Account] = {}
        self._found: dict[tuple[int, str, tuple[str, ...]], tuple[Account, ...]] = {}
        if index.has_tenants:
            for tenant in tenants:
                self._let_in(tenant)

    def _of_queue(self, view: QueueView) -> Account:
        account = self._of_queues.get(view.id)
        if account is None:
            account = self._of_queues[view.id] = Account(QUEUE_QUOTA, view.path, view.maximum, view.maxapplications)
            used = self._used.get(view.id, {})
            for kind in account.room:
                account.room[kind] -= used.get(kind, 0)
        return account

    def rooms(self) -> dict[int, Resources]:
        """The remaining room of each queue with an account so far, by the place of the queue."""
        return {self._index.places[queue]: account.room for queue, account in self._of_queues.items()}

    def _let_in(self, tenant: Tenant) -> None:
        if tenant.queue not in self._index.places:
            return
        application = None if tenant.application == NO_GROUP else (tenant.queue, tenant.application)
        for account in self._accounts(tenant.queue, tenant.user, tenant.groups):
            by_queue = account.reason == QUEUE_QUOTA  # the usage of queues is known already
            account.charge({} if by_queue else tenant.amount, application)

    def of(self, queue: int, kind: Kind) -> tuple[Account, ...]:
        """The accounts that a job is charged to: first queues, then users and groups; each from the leaf up."""
        return self._accounts(queue, kind.user, kind.groups)

    def plain_room(self, queue: int) -> Resources | None:
        """The remaining room of each type on a leaf's path; None if users, groups or applications matter there."""
        if not self._index.is_plain[self._index.places[queue]]:
            return None
        room: Resources = {}
        for account in self._own(queue):
            for kind, left in account.room.items():
                room[kind] = min(left, room.get(kind, left))
        return room

    def _own(self, queue: int) -> list[Account]:
        """The accounts of the queues with a maximum or ``maxapplications`` on a leaf's path, from the leaf up."""
        path = self._index.path(queue)
        return [self._of_queue(view) for view in path if view.maximum or view.maxapplications]

    def _accounts(self, queue: int, user: str, groups: tuple[str, ...]) -> tuple[Account, ...]:
        key = (queue, user, groups)
        found = self._found.get(key)
        if found is None:
            path = self._index.path(queue)
            limits = [account for view in path if view.limits for account in self._limits(view, user, groups)]
            found = self._found[key] = (*self._own(queue), *limits)
        return found

    def _limits(self, view: QueueView, user: str, groups: tuple[str, ...]) -> Iterator[Account]:
        for what, name, limit in limits_of(view.limits, user, groups):
            yield self._limit(view, what, name, limit)

    def _limit(self, view: QueueView, what: str, name: str, limit: Limit) -> Account:
        key = (view.id, what, name)
        if key not in self._of_limits:
            title = f"{what} {name} in {view.path}"
            self._of_limits[key] = Account(USER_LIMIT, title, limit.maxresources, limit.maxapplications)
        return self._of_limits[key]


def application_of(queue: int, kind: Kind) -> Application | None:
    """The application that a job is charged as; None for a job that is its own application."""
    return None if kind.application == NO_GROUP else (queue, kind.application)


def over(accounts: Sequence[Account], amount: Mapping[str, int], application: Application | None) -> Over | None:
    """The first account that can't be charged this amount, or None."""
    for account in accounts:
        blocked = account.blocks(amount, application)
        if blocked is not None:
            return Over(account, blocked)
    return None


def most_within(accounts: Sequence[Account], amount: Mapping[str, int], most: int) -> int:
    """How many times ``amount`` fits into all accounts, from 0 to ``most``."""
    for account in accounts:
        for kind, value in amount.items():
            if value and kind in account.room:
                most = min(most, account.room[kind] // value)
    return max(0, most)


def room_in(accounts: Iterable[Account]) -> Resources:
    """The smallest remaining room of all accounts, for each type that one of them limits."""
    room: Resources = {}
    for account in accounts:
        for kind, left in account.room.items():
            room[kind] = min(left, room.get(kind, left))
    return room


def places_within(room: Resources, amounts: Sequence[Resources], most: int) -> list[int]:
    """The places of at most ``most`` amounts that fit into the room together, ascending.

    The first amounts are tried first. If fewer than ``most`` of them fit, the smallest amounts are tried. They are used
    if more of them fit. The size of an amount is its largest fraction of the room.
    """
    kinds = [(kind, max(left, 0)) for kind, left in room.items()]
    first = _first_within(kinds, amounts, range(len(amounts)), most)
    if len(first) == min(most, len(amounts)):
        return first
    parts = [max(amount.get(kind, 0) / (left or 0.5) for kind, left in kinds) for amount in amounts]
    smallest = _first_within(kinds, amounts, sorted(range(len(amounts)), key=parts.__getitem__), most)
    return sorted(smallest) if len(smallest) > len(first) else first


def _first_within(
    room: Sequence[tuple[str, int]], amounts: Sequence[Resources], order: Iterable[int], most: int
) -> list[int]:
    left = dict(room)
    chosen: list[int] = []
    for place in order:
        amount = amounts[place]
        if len(chosen) < most and all(amount.get(kind, 0) <= free for kind, free in left.items()):
            left = {kind: free - amount.get(kind, 0) for kind, free in left.items()}
            chosen.append(place)
    return chosen


def charge(
    accounts: Sequence[Account], amount: Mapping[str, int], application: Application | None, *, keeps: bool = False
) -> None:
    """Charge the amount to all of these accounts. ``keeps``: for a reservation."""
    for account in accounts:
        account.charge(amount, application, keeps=keeps)
