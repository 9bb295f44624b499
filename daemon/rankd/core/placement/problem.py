"""The input and output of a cycle: one partition at one instant, and the decisions on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import msgspec
import numpy as np

from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import NodeSort
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_set import Held, NodeSet
from rankd.core.ranking.columns import NO_GROUP, FloatArray, IntArray
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import QueueView

Backfill = Literal["easy", "conservative", "none", "strict"]
BackfillOrder = Literal["rank", "shortest"]


@cache
def no_applications() -> Applications:
    """A table without any named application."""
    return Applications(created_at=np.empty(0), id_places=np.empty(0, dtype=np.int64))


class WaitingJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The ranked jobs of a leaf as columns, int64 (n,) each, in the order of the ranking.

    ``kinds``: indices into the kinds of the problem. ``applications`` (-1: the job is its own) and ``submitted_at``
    (float64, UTC seconds) are needed only in leaves whose policy uses usage. There the order of applications changes
    during a cycle. With the backfill order ``shortest``, ``submitted_at`` is needed in all leaves. ``tasks``: the
    pending tasks of each; None if no job is an array.
    """

    jobs: IntArray
    priorities: IntArray
    kinds: IntArray
    applications: IntArray | None = None
    submitted_at: FloatArray | None = None
    tasks: IntArray | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a running job holds on one node. An exclusive job holds the whole node.

    ``ends_at``: when the job is expected to end, UTC seconds. A past time means now; infinity means never. ``devices``:
    the ids of the devices that it holds, on a node that lists devices.
    """

    node: str
    resources: Resources
    exclusive: bool = False
    ends_at: float = math.inf
    devices: tuple[str, ...] = ()


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A running job for quotas. ``amount``: its amounts on all its nodes together; whole nodes if it is exclusive."""

    queue: int
    amount: Resources
    user: str = ""
    groups: tuple[str, ...] = ()
    application: int = NO_GROUP


class PartitionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One partition at the instant of a cycle.

    ``now``: UTC seconds. ``queues``: the root first, parents before children. ``waiting``: by leaf. ``used`` and
    ``pending``: the amounts of each queue, with those of its children; without ``pending``, it is summed from the jobs.
    ``applications``: those that jobs and tenants name by index. ``tenants``: needed only if any queue has limits or
    ``maxapplications``. ``each``: every job gets its own reason, from the moment of its turn. Otherwise there is one
    reason per queue and kind, from its first job. ``explain`` False: there are no reasons, which saves time and decides
    the same. ``array_reserve``: the most tasks of an array that get reservations
    with conservative backfill. ``array_rooms``: of each array with a limit, how many tasks may start.
    ``array_of``: the arrays of waiting tasks with records of their own. ``billing``: the prices of devices, by which
    the model is chosen for jobs that name none.

    **Identity is the version.** A cycle with a :class:`.CycleMemory` compares ``queues``, ``nodes`` (a
    :class:`.NodeSet`) and each leaf's :class:`WaitingJobs` by identity. The same object means that nothing in it has
    changed since the last cycle. So never write to one of them or to its arrays after a cycle has used it; make a new
    one. ``kinds`` is the exception: kinds may be added to the same table, if the earlier ones stay. A new object with
    equal content costs time, but does not change a decision.
    """

    now: float = 0.0
    queues: Sequence[QueueView]
    waiting: Mapping[int, WaitingJobs]
    kinds: KindTable
    used: Mapping[int, Resources]
    pending: Mapping[int, Resources] | None = None
    nodes: Sequence[Node] | NodeSet
    holds: Sequence[Hold] | Held = ()
    tenants: Sequence[Tenant] = ()
    applications: Applications = msgspec.field(default_factory=no_applications)
    node_sort: NodeSort = NodeSort()
    backfill: Backfill = "easy"
    backfill_order: BackfillOrder = "rank"
    reserve_depth: int = 1
    array_reserve: int = 20
    array_rooms: Mapping[int, int] = {}
    array_of: Mapping[int, int] = {}
    billing: Mapping[str, float] = {}
    each: bool = False
    explain: bool = True


class Placement(msgspec.Struct, frozen=True):
    """A job that starts, and its nodes in the order in which they were chosen. An array has one for each task.

    ``devices``: the ids of its devices by node, in the order of their indices. Nodes without any are left out.
    """

    job: int
    nodes: tuple[str, ...]
    devices: Mapping[str, tuple[str, ...]] = {}


class Reservation(msgspec.Struct, frozen=True):
    """A job and its reserved nodes, in the order in which they were chosen. ``starts_at``: UTC seconds."""

    job: int
    nodes: tuple[str, ...]
    starts_at: float


class WaitReason(msgspec.Struct, frozen=True):
    """Why the jobs of a queue and a kind wait: a stable code and the blocking fact.

    ``queue`` None: for jobs of the kind in all queues of the partition without a reason of their own.
    """

    queue: int | None
    kind: int
    reason: str
    fact: str


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The allocations and reservations, in the order of the decisions, and the reasons.

    ``own``: reasons per queue and kind. ``common``: reasons per kind, for all queues without one in ``own``.
    ``by_job``: reasons by job id, if the problem has ``each``. ``looked_at``: the number of jobs that were tried one by
    one. ``backfilled``: the number of jobs that started after a reservation was made.
    """

    placements: tuple[Placement, ...]
    reservations: tuple[Reservation, ...]
    own: tuple[WaitReason, ...]
    common: tuple[WaitReason, ...]
    by_job: Mapping[int, WaitReason]
    looked_at: int
    backfilled: int

    @property
    def reasons(self) -> tuple[WaitReason, ...]:
        """All reasons per queue and kind, ``own`` and ``common``."""
        return (*self.own, *self.common)
