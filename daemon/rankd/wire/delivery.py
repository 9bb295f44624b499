"""Messages between the intake and an agent: what a node is to start and to end, and what happened there."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from rankd.core.model.job import JobRequest


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


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to an allocation on one node.

    An end says when it had started: reports of one allocation may arrive in another order than they were sent.
    ``exit_status`` is the command's, ``signal`` the one that ended it; ``cause`` says why the agent ended it
    (``timeout``, ``cancel``, ``agent_stopped``), could not start it (``start_failed``), lost sight of it (``lost``), or
    that it went over its memory limit (``out_of_memory``). ``measured`` says how memory and processor time were: of
    the job's control group (``cgroup``), of the processes that its first process waited for (``wait``), or the time
    (``cgroup_cpu``) or the memory (``cgroup_memory``) alone by the group.
    """

    allocation: int
    job: int
    kind: Literal["started", "ended"]
    at: float
    started_at: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None
    message: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    max_rss_bytes: int | None = None
    cpu_s: float | None = None
    measured: Annotated[str, msgspec.Meta(max_length=16)] | None = None


class ReportsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """So many reports are durable."""

    taken: int


class ReportMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several reports of one node, in the order in which things happened; ``instance`` as in its registration."""

    reports: list[Report]
    instance: str = ""
