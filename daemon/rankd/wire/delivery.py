"""Messages between the intake and an agent: what a node is to start and to end, and what happened there."""

from __future__ import annotations

import msgspec

from rankd.core.model.job import JobRequest
from rankd.core.model.report import Report


class StartJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a job under an allocation on this node. ``rank`` is the node's place in ``nodes``."""

    allocation: int
    job: int
    user: str
    name: str
    nodes: list[str]
    rank: int
    resources: dict[str, int]
    request: JobRequest


class StartOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A :class:`StartJob` as the intake sends it: what the records hold as JSON goes out as it is."""

    allocation: int
    job: int
    user: str
    name: str
    nodes: msgspec.Raw
    rank: int
    resources: msgspec.Raw
    request: msgspec.Raw


class Waits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scheduler's hint to a node's agent: something waits for the node. It says nothing else on purpose."""


class Take(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent asks what its node is to start and to end.

    ``known``: every allocation of the node that it runs or has still to report. The answer then also holds what it
    was given before and does not know.
    """

    agent: str
    known: list[int] | None = None
    instance: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the node is to start, now recorded as taken by it, and which allocations it is to end.

    ``more``: there is more than one answer may hold.
    """

    starts: list[StartOrder] = []
    cancels: list[int] = []
    more: bool = False


class AllocationMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """:class:`Taken`, as the agent reads it."""

    starts: list[StartJob] = []
    cancels: list[int] = []
    more: bool = False


class ReportsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """So many reports are durable."""

    taken: int


class ReportMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several reports of one node, in the order in which things happened; ``instance`` as in its registration."""

    reports: list[Report]
    instance: str = ""
