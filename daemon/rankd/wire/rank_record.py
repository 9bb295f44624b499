"""What answers say of ranks: breakdowns of priorities, and why a job has its rank."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rankd.core.placement.node_shortage import NodeShortage
from rankd.wire.page import RankPlace


class FactorPoints(msgspec.Struct, frozen=True, kw_only=True):
    """A factor of a job's priority: ``value`` times ``weight`` is ``points``. None: it is not known yet, or hidden."""

    name: str
    value: float | None
    weight: float
    points: float | None


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job's priority and its parts, in the order in which they are summed.

    ``override``: what replaces the sum (``fixed``, …); ``override_by``: who fixed it.
    """

    class_value: int | None
    points_sum: float | None
    priority: int | None
    override: str | None
    override_by: str | None
    rank: int | None
    generation: int | None
    ranked_at: float | None
    factors: list[FactorPoints]


class PriorityRow(Breakdown, frozen=True, kw_only=True):
    """A pending job and its breakdown."""

    id: int
    user: str | None
    account: str | None
    queue: str
    qos: str | None
    partition: str
    name: str | None
    reason: str | None
    submitted_at: float
    eligible_at: float | None


class RanksBehind(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next page of priorities begins: a field of the next request."""

    behind: RankPlace


class PriorityPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of pending jobs by rank, and the weights of the factors."""

    jobs: list[PriorityRow]
    weights: dict[str, float]
    total: int | UnsetType = UNSET
    next: RanksBehind | UnsetType = UNSET


class QueueStep(msgspec.Struct, frozen=True, kw_only=True):
    """A queue on a job's way up: the priority that it ``shows`` to its parent; ``without`` its fence or offset."""

    queue: str
    policy: str
    offset: int
    shows: int | None
    without: int


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """The queue in which the ways of two jobs meet, and what the queues below it show of this and the other job."""

    queue: str
    this: QueueStep
    other: QueueStep


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job at the next rank. ``parts``: by how many points each part of its priority is larger than the own one.

    ``gone``: it is no longer pending; then only its ``id`` is there.
    """

    id: int
    gone: bool = False
    array_job: int | UnsetType | None = UNSET
    array_task: int | UnsetType | None = UNSET
    user: str | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET
    override: str | UnsetType | None = UNSET
    difference: int | UnsetType | None = UNSET
    parts: dict[str, float] | UnsetType = UNSET
    decided_by: str | UnsetType | None = UNSET
    meets: Meeting | UnsetType | None = UNSET


class DelayPart(msgspec.Struct, frozen=True, kw_only=True):
    """What delayed a job: ``later jobs``, ``longer runs``, ``lost nodes``, or another ``order``.

    ``count``: how many jobs or nodes; ``named``: those that held most. ``part``: of the delay, 0 to 1; ``part_s``: the
    same in seconds.
    """

    kind: str
    count: int
    named: list[str]
    part: float
    part_s: float


class LateStart(msgspec.Struct, frozen=True, kw_only=True):
    """A job started ``delay_s`` after ``late``, the latest start that somebody was shown; times in UTC seconds."""

    made_at: float
    early: float
    late: float
    started_at: float
    delay_s: float
    causes: list[DelayPart]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job has its rank and why it waits. The fields after ``lacks`` are there if the job is in the ranking.

    ``rank`` is one of ``of`` ranked jobs. ``cancelled_by``: who cancelled it. Of a task without a record of its own,
    ``late``: of a job that started later than a range said that was shown.
    ``id`` and the rank are those of its array. ``lacks``: what each node that is large enough lacks now.

    ``cores`` and ``memory`` (bytes on each node): what it asked for. ``max_rss_bytes``, ``cpu_s`` and
    ``waited_…_s``: as in a job's record; of one that waits for its first start, up to now.
    """

    id: int
    user: str
    state: str
    held_by: str | None
    queue: str
    reason: str | None
    reason_fact: Any
    expected_start_at: float | None
    reserved_nodes: list[str] | None
    nodelist: str | None
    ended_at: float | None = None
    exit_status: int | None
    signal: int | None = None
    message: str | None
    array_job: int | None = None
    array_task: int | None = None
    cancelled_by: str | None = None
    late: LateStart | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    time_limit_s: float | None = None
    cores: float | None = None
    memory: int | None = None
    max_rss_bytes: int | None = None
    cpu_s: float | None = None
    measured: str | None = None
    waited_dependency_s: float | None = None
    waited_held_s: float | None = None
    waited_quota_s: float | None = None
    waited_resources_s: float | None = None
    waited_reserved_s: float | None = None
    waited_starting_s: float | None = None
    rank: int | None
    of: int | None
    above: Neighbour | None
    above_other: Neighbour | None
    below: Neighbour | None
    path: list[QueueStep]
    lacks: list[NodeShortage]
    partition: str | UnsetType = UNSET
    generation: int | UnsetType | None = UNSET
    ranked_at: float | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET
    override: str | UnsetType | None = UNSET
    override_by: str | UnsetType | None = UNSET
    class_value: int | UnsetType | None = UNSET
    points_sum: float | UnsetType | None = UNSET
    factors: list[FactorPoints] | UnsetType = UNSET
