"""Messages between the intake and an agent: what a node has to start and to end, and what happened there."""

from __future__ import annotations

import msgspec

from rankd.core.model.array import TaskOfArray
from rankd.core.model.device import AssignedDevice
from rankd.core.model.job import JobRequest
from rankd.core.model.report import Report
from rankd.core.session.step import StepEnd

MOST_CARRIED_OUT = 1_000
"""Orders that a node may say in one request that it has carried out."""


class StartJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a job under an allocation on this node. ``rank`` is the node's place in ``nodes``.

    ``script``: the text to run, in UTF-8; only the first node of a job with a script gets it. ``holds``: the other
    nodes of such a job run nothing, and are the job's until its allocation ends. ``account``, ``queue`` and ``qos`` are
    those of the job now. ``devices``: those of the job on this node, in the order of their indices. ``requeues``: how
    often the job was queued again. ``whole``: of an exclusive job, the cores (thousandths) of each of its nodes, which
    it holds; then ``resources`` are those of this node.
    """

    allocation: int
    job: int
    user: str
    name: str
    nodes: list[str]
    rank: int
    resources: dict[str, int]
    request: JobRequest
    script: bytes | None = None
    holds: bool = False
    account: str = ""
    queue: str = ""
    qos: str = ""
    array: TaskOfArray | None = None
    devices: list[AssignedDevice] = []
    requeues: int = 0
    whole: list[int] = []

    @property
    def device_ids(self) -> list[str]:
        """The ids of the job's devices on this node."""
        return [device.id for device in self.devices]


class StartOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A :class:`StartJob` as the intake sends it: JSON from the records is sent unchanged."""

    allocation: int
    job: int
    user: str
    name: str
    nodes: msgspec.Raw
    rank: int
    resources: msgspec.Raw
    request: msgspec.Raw
    script: bytes | None = None
    holds: bool = False
    account: str = ""
    queue: str = ""
    qos: str = ""
    array: TaskOfArray | None = None
    devices: list[AssignedDevice] = []
    requeues: int = 0
    whole: list[int] = []


class JobOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node has to do with a running job, once: send its processes a signal, or else give it this time limit.

    ``time_limit_s`` counts from the job's start; None: no limit. The orders of a job are carried out by ascending ids.
    """

    id: int
    allocation: int
    signal: int | None = None
    time_limit_s: float | None = None


class Waits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scheduler's hint to a node's agent: allocations wait for the node. It deliberately contains no more."""


class Take(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent requests what its node has to start and to end.

    ``known``: every allocation of the node that it runs or still has to report. With it, the answer also has
    allocations that were sent before and that the agent does not know. ``carried_out``: the ids of orders that were
    carried out. They are sent again until they are named here.
    """

    agent: str
    known: list[int] | None = None
    instance: str = ""
    carried_out: list[int] = []


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the node has to start, now recorded as taken, which allocations it has to end, and what to do with others.

    ``more``: more allocations wait than fit into one answer.
    """

    starts: list[StartOrder] = []
    cancels: list[int] = []
    orders: list[JobOrder] = []
    more: bool = False


class AllocationMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """:class:`Taken`, as the agent decodes it."""

    starts: list[StartJob] = []
    cancels: list[int] = []
    orders: list[JobOrder] = []
    more: bool = False


class ReportsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """This many reports are durable."""

    taken: int


class ReportMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several reports of one node, in the order of their events; ``instance`` as in its registration.

    ``steps``: ends of tasks of steps. They count before the reports: a job's steps end before it does.
    """

    reports: list[Report]
    steps: list[StepEnd] = []
    instance: str = ""
