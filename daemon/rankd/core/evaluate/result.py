"""The output of ``rankd evaluate``, with amounts as users see them: vcore in cores, +infinity as ``"inf"``."""

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
    """A pending job. ``rank`` is None if it is not ranked. ``reason`` is None if it starts now."""

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
    """A queue. ``partition`` is given if there are several partitions."""

    path: str
    priority: int | None
    policy: str
    offset: int
    sort_priority: str
    share: float
    pending: dict[str, float]
    partition: str | UnsetType = UNSET


class NodeScore(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is up. ``score`` is its utilisation."""

    name: str
    score: float


class AssociationResult(msgspec.Struct, frozen=True, kw_only=True):
    """An account (``user`` None) or a user in it. Numbers that the algorithm does not have are None."""

    account: str
    user: str | None
    shares_norm: float
    usage: float
    usage_effective: float
    level_fairshare: float | str | None
    fairshare: float | None


class AllocationResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job that starts now. ``task``: of an array, the index of the task. ``devices``: their ids, by node."""

    job: Id
    nodes: list[str]
    devices: dict[str, list[str]] | UnsetType = UNSET
    task: int | UnsetType = UNSET


class ReservationResult(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation: the job can start on these nodes at ``starts_at`` (UTC seconds)."""

    job: Id
    nodes: list[str]
    starts_at: float
    task: int | UnsetType = UNSET


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """A warning: a part of the document or configuration will not have the effect that it seems to have."""

    code: str
    message: str


class JobRank(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a pending job in the ranking. ``rank`` is None if it is not ranked."""

    id: Id
    priority: int
    rank: int | None


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions that concern only the order of the jobs."""

    rejected: list[Rejection]
    jobs: list[JobRank]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions."""

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
