"""What a job waited for, as six parts of its time up to its first start that add up to the whole. Pure.

While a job waits by its own record (held, blocked, allocated), the record names the cause. While it is eligible, the
cause is that of its kind: jobs of one kind wait for the same reason, and :class:`Spell` says since when.

All parts are differences of times after 2004, which are multiples of 2**-22 s, so their sum is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rankd.core.admission.dependency import BEGIN_TIME
from rankd.core.model.job import URGENCY_HOLD, State
from rankd.core.model.reason_code import NO_NODE_FITS, RESERVED, RESOURCES


class WaitCause(StrEnum):
    """What a job waits for. ``STARTING``: for rankd itself: from the allocation until its processes run."""

    DEPENDENCY = "dependency"
    HELD = "held"
    QUOTA = "quota"
    RESOURCES = "resources"
    RESERVED = "reserved"
    STARTING = "starting"


COLUMNS: Mapping[WaitCause, str] = {cause: f"waited_{cause.value}_s" for cause in WaitCause}
"""The columns of a job's record with the parts."""

_OF_REASON = {RESOURCES: WaitCause.RESOURCES, NO_NODE_FITS: WaitCause.RESOURCES, RESERVED: WaitCause.RESERVED}


def cause_of_reason(reason: str) -> WaitCause:
    """The cause of a reason that a scheduling cycle found. All others are quotas and limits."""
    return _OF_REASON.get(reason, WaitCause.QUOTA)


Key = tuple[int, int, float, str, int]
"""A kind of jobs: queue, shape, time limit, user, application, as in ``wait_reasons``."""


class Kind(NamedTuple):
    """What a job's record says about its kind."""

    queue: int
    shape: int
    time_limit_s: float | None
    user: str
    application: int | None

    def keys(self) -> list[Key]:
        """The kinds to which it may belong: those of its queue first, as the view of reasons prefers them."""
        limit = -1.0 if self.time_limit_s is None else self.time_limit_s
        application = -1 if self.application is None else self.application
        own = [(self.queue, self.shape, limit, user, of) for user in (self.user, "") for of in (application, -2)]
        return [*own, (0, self.shape, limit, "", -2)]


class Spell(NamedTuple):
    """Jobs of a kind wait for ``cause`` since then (UTC seconds). None: the cycles see no such job."""

    since: float
    cause: WaitCause | None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's record says of how it waits. ``until``: up to when ``parts`` count. ``limited``: by its array."""

    state: State
    held: bool
    urgency: int
    blocked_by: str | None
    limited: bool
    until: float
    parts: Mapping[WaitCause, float]

    @property
    def cause(self) -> WaitCause | None:
        """What it waits for by its own record; None if it is eligible."""
        if self.state is State.ALLOCATED:
            return WaitCause.STARTING
        if self.held or self.urgency == URGENCY_HOLD or self.blocked_by == BEGIN_TIME:
            return WaitCause.HELD
        return None if self.blocked_by is None else WaitCause.DEPENDENCY


def counted(waiting: Waiting, spells: Sequence[Sequence[Spell]], now: float) -> Waiting:
    """The same job with its parts up to ``now``. ``spells``: as for :func:`divided`.

    If the clock went back, nothing is added.
    """
    if now <= waiting.until:
        return waiting
    cause = waiting.cause
    if cause is None:
        otherwise = WaitCause.QUOTA if waiting.limited else WaitCause.STARTING
        new = divided(spells, waiting.until, now, otherwise)
    else:
        new = {cause: now - waiting.until}
    parts = {one: waiting.parts.get(one, 0.0) + new.get(one, 0.0) for one in WaitCause}
    return msgspec.structs.replace(waiting, until=now, parts=parts)


def divided(
    spells: Sequence[Sequence[Spell]], since: float, until: float, otherwise: WaitCause
) -> dict[WaitCause, float]:
    """The seconds between two times by cause. Their sum is ``until - since``.

    ``spells``: one or more histories of the job's kind, each ordered by time; an earlier one has precedence where it
    knows a cause. Time before a cycle has found a cause counts as the cause that it then found; ``otherwise`` if none
    was found.

    >>> history = [Spell(10.0, WaitCause.QUOTA), Spell(14.0, WaitCause.RESOURCES), Spell(20.0, None)]
    >>> {str(cause): s for cause, s in divided([history], 8.0, 21.0, WaitCause.STARTING).items()}
    {'quota': 6.0, 'resources': 6.0, 'starting': 1.0}
    """
    if not spells:
        return {otherwise: until - since}
    found: dict[WaitCause, float] = {}
    unknown = 0.0
    for begin, end, cause in _pieces(spells, since, until):
        if cause is None:
            unknown += end - begin
        else:
            found[cause] = found.get(cause, 0.0) + unknown + (end - begin)
            unknown = 0.0
    if unknown:
        found[otherwise] = found.get(otherwise, 0.0) + unknown
    return found


def _pieces(
    spells: Sequence[Sequence[Spell]], since: float, until: float
) -> Iterator[tuple[float, float, WaitCause | None]]:
    """The pieces of the time, each with the cause that holds in all of it."""
    inner = {spell.since for history in spells for spell in history if since < spell.since < until}
    bounds = [since, *sorted(inner), until]
    at = [0] * len(spells)
    for begin, end in pairwise(bounds):
        causes = []
        for place, history in enumerate(spells):
            while at[place] < len(history) and history[at[place]].since <= begin:
                at[place] += 1
            causes.append(history[at[place] - 1].cause if at[place] else None)
        yield begin, end, next((cause for cause in causes if cause is not None), None)


def thinned(history: Sequence[Spell], most: int) -> list[Spell]:
    """The spells to forget of a history that has more than ``most``: every other one of its older half."""
    return list(history[1 : len(history) - most // 2 : 2]) if len(history) > most else []
