"""The output of ``rankd evaluate``. Amounts and numbers as users see them: vcore in cores, +infinity as ``"inf"``."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rankd.core.evaluate.admission import Rejection
from rankd.core.evaluate.document import Id


class FactorRow(msgspec.Struct, frozen=True, kw_only=True):
    """A term of a job's priority: ``points`` is weight times value."""

    name: str
    value: float
    weight: float
    points: float


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job. ``rank`` is None while it is not ranked; ``reason`` is None if it starts now."""

    id: Id
    priority: int
    rank: int | None
    override: str | None
    class_value: int
    priority_class: str | None
    preemption_policy: str
    reason: str | None
    factors: list[FactorRow]


class QueueResult(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``partition`` is given where there are several."""

    path: str
    priority: int | None
    policy: str
    offset: int
    sort_priority: str
    share: float
    pending: dict[str, float]
    partition: str | UnsetType = UNSET


class NodeScore(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is up; the score is its utilisation."""

    name: str
    score: float


class AssociationResult(msgspec.Struct, frozen=True, kw_only=True):
    """An account (``user`` None) or a user in it; None where the algorithm has no such number."""

    account: str
    user: str | None
    shares_norm: float
    usage: float
    usage_effective: float
    level_fairshare: float | str | None
    fairshare: float | None


class AllocationResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job that starts now."""

    job: Id
    nodes: list[str]


class ReservationResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is promised these nodes."""

    job: Id
    nodes: list[str]
    starts_at: float


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that will not do what it seems to."""

    code: str
    message: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is decided."""

    rejected: list[Rejection]
    jobs: list[JobResult]
    queues: list[QueueResult]
    queue_order: dict[str, list[str]]
    application_order: dict[str, list[Id]]
    node_order: dict[str, list[NodeScore]]
    associations: list[AssociationResult]
    ranking: list[Id]
    allocations: list[AllocationResult]
    reservations: list[ReservationResult]
    warnings: list[Warned]
