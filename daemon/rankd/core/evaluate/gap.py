"""What would put a job before another one. Each way is tried by evaluating the changed state; no result is a guess.

The ways are: another QoS, queue or account of its user; time in which nothing else happens; and the decay of its user's
usage. All other values stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from rankd.core.evaluate.document import Document, Id, JobEntry
from rankd.core.evaluate.result import Result
from rankd.core.model.job import URGENCY_DEFAULT
from rankd.core.model.setting import PrioritySettings

Decide = Callable[[Document], Result]

ALL_JOBS_UP_TO = 2_000
"""The most jobs for a trial with all of them. With more, only the two jobs are compared.

Their order is then the same, except for queues whose order depends on the usage of other jobs.
"""

WAITS_S = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0, 14 * 86400.0, 28 * 86400.0)
PRECISE_TO = 0.02
"""The relative error of a time that is found."""

FRACTIONS = (0.5, 0.25, 0.1, 0.01, 0.0)
"""The fractions of the user's usage to try."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way that was tried, and its result.

    ``kind``: ``qos``, ``queue``, ``account``, ``time`` or ``usage``. ``amount``: for ``time`` the seconds from now, for
    ``usage`` the fraction of the usage that is left. ``seconds``: how long the usage takes to decay to that; None if it
    never does. ``closes``: the job is then before the other one. ``priority``: the priority that the job then has.
    ``short``: by how much the priority of the other job is larger.
    """

    kind: str
    what: str = ""
    amount: float | None = None
    seconds: float | None = None
    closes: bool
    priority: int
    short: int


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """All ways that were tried. ``jobs``: the number of pending jobs in the trials."""

    job: Id
    other: Id
    jobs: int
    ways: list[Way]


def find_ways(document: Document, job: Id, other: Id, decide: Decide) -> Gap:
    """Try all ways. ``decide`` is :func:`rankd.core.evaluate.evaluate.evaluate` with its surroundings."""
    pending = sum(entry.state == "pending" for entry in document.jobs)
    if pending > ALL_JOBS_UP_TO:
        document, pending = _only(document, {job, other}), 2
    trial = _Trial(document, job, other, decide)
    ways = [*trial.changes(), *trial.waiting(), *trial.decay()]
    return Gap(job=job, other=other, jobs=pending, ways=ways)


def _only(document: Document, wanted: set[Id]) -> Document:
    """The document with only these jobs and the jobs that they depend on."""
    entries = {entry.id: entry for entry in document.jobs}
    kept = wanted | {needed.job for id_ in wanted for needed in entries[id_].depends_on}
    jobs = [entry for entry in document.jobs if entry.id in kept]
    allocations = [row for row in document.allocations if row.job in kept]
    named = {entry.application for entry in jobs}
    applications = [row for row in document.applications if row.id in named]
    return replace(document, jobs=jobs, allocations=allocations, applications=applications)


class _Trial:
    def __init__(self, document: Document, job: Id, other: Id, decide: Decide) -> None:
        self._document = document
        self._job = job
        self._other = other
        self._decide = decide
        self._own = next(entry for entry in document.jobs if entry.id == job)
        self._settings = document.priority or PrioritySettings()

    def changes(self) -> Iterator[Way]:
        """Other QoS, queues and accounts, without those that admission refuses."""
        present = self._decide(self._document)
        for qos in self._document.qos or []:
            if qos.name != self._own.qos:
                yield from self._with(kind="qos", what=qos.name, own=replace(self._own, qos=qos.name))
        paths = [row.path for row in present.queues if row.partition in (msgspec.UNSET, self._own.partition)]
        for path in paths:
            is_leaf = not any(other.startswith(f"{path}.") for other in paths)
            if is_leaf and path != self._own.queue:
                own = replace(self._own, queue=path, application=None)
                yield from self._with(kind="queue", what=path, own=own)
        for row in self._document.associations or []:
            if row.user == self._own.user and row.user is not None and row.account != self._own.account:
                own = replace(self._own, account=row.account)
                yield from self._with(kind="account", what=row.account, own=own)

    def waiting(self) -> Iterator[Way]:
        """The shortest wait after which the job is before the other one; else the longest wait that was tried."""
        yield self._first("time", WAITS_S, self._later, growing=True)

    def decay(self) -> Iterator[Way]:
        """The largest tried fraction of its user's usage that puts the job before the other one; else fraction 0.

        Yields nothing if the user has no usage.
        """
        if any(row.user == self._own.user and row.usage for row in self._document.associations or []):
            yield self._first("usage", FRACTIONS, self._used, growing=False)

    def _first(self, kind: str, amounts: tuple[float, ...], vary: Callable[[float], Document], *, growing: bool) -> Way:
        last, way = None, self._try(kind, amounts[-1], vary)
        for amount in amounts:
            tried = self._try(kind, amount, vary)
            if tried.closes:
                return self._narrowed(kind, last, tried, vary) if growing else tried
            last = amount
        return way

    def _narrowed(self, kind: str, low: float | None, found: Way, vary: Callable[[float], Document]) -> Way:
        low = low or 0.0
        while found.amount is not None and found.amount - low > PRECISE_TO * found.amount:
            middle = (low + found.amount) / 2
            tried = self._try(kind, middle, vary)
            if tried.closes:
                found = tried
            else:
                low = middle
        return found

    def _try(self, kind: str, amount: float, vary: Callable[[float], Document]) -> Way:
        way = self._way(self._decide(vary(amount)), kind=kind, amount=amount)
        if kind == "usage":
            half_life_s = self._settings.fairshare.half_life_s
            decays = half_life_s is not None and amount > 0
            seconds = half_life_s * -math.log2(amount) if decays and half_life_s is not None else None
            way = replace(way, seconds=seconds)
        return way

    def _with(self, *, kind: str, what: str, own: JobEntry) -> Iterator[Way]:
        """The way with a changed job, unless the job would be refused, or its user may not use it."""
        if not self._may(own):
            return
        result = self._decide(self._replacing(own))
        if not any(row.job == self._job for row in result.rejected):
            yield self._way(result, kind=kind, what=what)

    def _may(self, own: JobEntry) -> bool:
        """Whether the job's user may have this, as for an update without ``--admin``.

        The job is admitted alone and as new, since access lists don't apply to what was accepted before. Its class and
        its urgency are left out, since an update keeps them.
        """
        new = replace(own, class_value=None, priority_class=None, priority=None, preemption_policy=None)
        new = replace(new, privileged=False, urgency=URGENCY_DEFAULT, depends_on=[])
        alone = replace(self._document, jobs=[new], allocations=[])
        return not self._decide(alone).rejected

    def _replacing(self, changed: JobEntry) -> Document:
        jobs = [changed if entry.id == changed.id else entry for entry in self._document.jobs]
        return replace(self._document, jobs=jobs)

    def _later(self, wait_s: float) -> Document:
        return replace(self._document, now=self._document.now + wait_s)

    def _used(self, left: float) -> Document:
        rows = [
            replace(row, usage=row.usage * left) if row.user == self._own.user else row
            for row in self._document.associations or []
        ]
        return replace(self._document, associations=rows)

    def _way(self, result: Result, *, kind: str, what: str = "", amount: float | None = None) -> Way:
        places = {id_: place for place, id_ in enumerate(result.ranking)}
        rows = {row.id: row for row in result.jobs if row.id in (self._job, self._other)}
        mine, its = rows[self._job], rows[self._other]
        closes = self._job in places and places[self._job] < places.get(self._other, len(places))
        short = its.priority - mine.priority
        return Way(kind=kind, what=what, amount=amount, closes=closes, priority=mine.priority, short=short)
