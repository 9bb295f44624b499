"""A cycle's input and output: one partition at one instant, and what is decided on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

QUEUE_QUOTA = "queue quota"
USER_LIMIT = "user limit"
NO_NODE_FITS = "no node fits"
RESOURCES = "resources"
RESERVED = "reserved"

Backfill = Literal["easy", "conservative", "none"]


def no_applications() -> Applications:
    """None that is named."""
    return Applications(created_at=np.empty(0), id_places=np.empty(0, dtype=np.int64))


class WaitingJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf's ranked jobs as columns, in the ranking's order: int64 (n,) each.

    ``kinds`` are indices into the problem's. ``applications`` (-1: its own) and ``submitted_at`` (float64) are
    needed only in leaves whose policy goes by usage, where applications change places as they use more.
    """

    jobs: IntArray
    priorities: IntArray
    kinds: IntArray
    applications: IntArray | None = None
    submitted_at: FloatArray | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What a running job has of one node, and when it is expected to give it back; an exclusive one has it whole.

    ``ends_at`` in UTC seconds; one that is past means now; infinite: never.
    """

    node: str
    resources: Resources
    exclusive: bool = False
    ends_at: float = math.inf


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A running job as quotas see it. ``amount``: of all its nodes together, whole ones if it is exclusive."""

    queue: int
    amount: Resources
    user: str = ""
    groups: tuple[str, ...] = ()
    application: int = NO_GROUP


class PartitionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One partition at the instant of a cycle.

    ``queues`` has the root first; ``waiting`` is by leaf; ``used`` and ``pending`` say what each queue uses and
    waits for (children included; without ``pending`` it is summed from the jobs). ``applications`` are those that
    jobs and tenants name by index; ``tenants`` may be left out where there are neither limits nor
    ``maxapplications``. ``each``: a reason of its own for each job, as of the moment when it was its turn; else one
    per queue and kind, as of the first.

    **Identity is the version.** A cycle with a :class:`.CycleMemory` compares ``queues``, ``nodes`` (a
    :class:`.NodeSet`) and each leaf's :class:`WaitingJobs` by identity. The same object means: nothing in it has
    changed since the last cycle. So never write to one of them or to its arrays after a cycle has had it: make a new
    one. ``kinds`` is the exception: the same table may have got further kinds, and its first ones stay. A new object
    with equal content costs time and changes no decision.
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
    reserve_depth: int = 1
    each: bool = False


class Placement(msgspec.Struct, frozen=True):
    """A job and the nodes that it gets, in the order chosen."""

    job: int
    nodes: tuple[str, ...]


class Reservation(msgspec.Struct, frozen=True):
    """A job that is promised these nodes, in the order chosen, from an instant on."""

    job: int
    nodes: tuple[str, ...]
    starts_at: float


class WaitReason(msgspec.Struct, frozen=True):
    """Why the jobs of a queue and a kind wait: a stable code and the blocking fact.

    ``queue`` None: those of the kind in all queues of the partition that have no reason of their own.
    """

    queue: int | None
    kind: int
    reason: str
    fact: str


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations and reservations in the order decided; reasons per queue and kind, or by job (``each``).

    ``common`` are the reasons of kinds in all queues that have none of their ``own``. ``looked_at``: how many jobs
    were looked at one by one; ``backfilled``: how many started behind a reservation.
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
        """All of them."""
        return (*self.own, *self.common)
