"""The queues that are made from Slurm's partitions: their names, factors, order, limits and access lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.model.queue import DEFAULT_PARTITION
from rankd.core.model.setting import DEFAULT_WEIGHTS
from rankd.core.slurm.limit import GroupLimit, QueueLimits, UserLimit, queue_limits
from rankd.core.slurm.node_partition import NodePartitions, Placed
from rankd.core.slurm.queue_access import EVERYONE, NOBODY, Members, submit_list
from rankd.core.slurm.reading import Limit, Reading

DEFAULT_QUEUE = "default"
_NAME = re.compile(r"[A-Za-z0-9_:#/@-]{1,64}")
_LARGEST_OFFSET = 2**31 - 1


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf queue made from a partition. ``access``: its ``submitacl``. ``partition``: rankd's, with its nodes.

    ``users``, ``groups``: limits that count in this queue alone.
    """

    name: str
    factor: float | None
    limits: QueueLimits = QueueLimits()
    offset: int = 0
    access: str = EVERYONE
    partition: str = DEFAULT_PARTITION
    users: tuple[UserLimit, ...] = ()
    groups: tuple[GroupLimit, ...] = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the queues depend on, besides their partitions. ``weights``: by which a job's priority is bounded."""

    of_qos: Sequence[tuple[Limit, Reading]] = ()
    members: Members = Members()
    where: NodePartitions = NodePartitions()
    weights: Mapping[str, float] = {}


def make_queues(partitions: Sequence[Placed], rules: Rules, own: Reading) -> tuple[Queue, ...]:
    """A leaf for each partition, and the default queue for jobs that name none."""
    by_qos = {qos: queue_limits(qos, rules.of_qos) for qos in dict.fromkeys(one.qos for one, _ in partitions)}
    offsets = _offsets(partitions, rules.weights, own)
    queues: dict[str, Queue] = {}
    default = ""
    for partition, reading in partitions:
        name = re.sub(r"[^A-Za-z0-9_:#/@-]", "-", partition.name)[:64]
        if name.lower() in queues or not _NAME.fullmatch(name):
            own.remark(0, f"partition '{partition.name}' can't be a queue of its own: there is '{name}' already")
            continue
        if name != partition.name:
            own.remark(0, f"partition '{partition.name}' becomes the queue '{name}'")
        queues[name.lower()] = Queue(
            name=name,
            factor=partition.factor,
            limits=by_qos[partition.qos],
            offset=offsets[partition.tier],
            access=submit_list(partition, rules.members, reading),
            partition=rules.where.of.get(partition.name, DEFAULT_PARTITION),
        )
        default = name.lower() if partition.is_default else default
    if DEFAULT_QUEUE not in queues:
        queues[DEFAULT_QUEUE] = _default(queues.get(default), bool(queues), own)
    _remark_shared(queues.values(), [one for one, _ in partitions], own)
    return tuple(queues.values())


def _default(like: Queue | None, has_others: bool, own: Reading) -> Queue:
    """The queue of jobs that name none. Slurm refuses such jobs if no partition is the default one."""
    if like is not None:
        own.remark(0, f"jobs that name no queue go to root.default; it has the settings of '{like.name}'")
        return msgspec.structs.replace(like, name=DEFAULT_QUEUE)
    if has_others:
        message = "no partition is the default one, so root.default is open to administrators only: users name a queue"
        own.remark(0, f"{message} (-q), or you write '*' into its submitacl")
    return Queue(name=DEFAULT_QUEUE, factor=None, access=NOBODY if has_others else EVERYONE)


def _offsets(partitions: Sequence[Placed], weights: Mapping[str, float], own: Reading) -> dict[int, int]:
    """``priority.offset`` by ``PriorityTier``: a queue of a higher tier shows more than any job of a lower one."""
    tiers = sorted({one.tier for one, _ in partitions})
    largest = sum(abs(weight) for weight in (weights or DEFAULT_WEIGHTS).values())
    step = math.ceil(largest) + 1
    if len(tiers) < 2:
        return dict.fromkeys(tiers, 0)
    if step * len(tiers) > _LARGEST_OFFSET:
        own.remark(0, "PriorityTier: no equivalent in rankd, as the weights are too large for offsets of queues")
        return dict.fromkeys(tiers, 0)
    message = "PriorityTier: jobs of a higher tier go first, by priority.offset of their queues; rankd ends no jobs"
    own.remark(0, f"{message} for them")
    return {tier: place * step for place, tier in enumerate(tiers)}


def _remark_shared(queues: Iterable[Queue], partitions: Sequence[object], own: Reading) -> None:
    """Remark on a limit that Slurm counts over several partitions, and rankd in each queue by itself."""
    limited = [queue.name for queue in queues if queue.limits != QueueLimits()]
    names = [name for name in (getattr(one, "qos", None) for one in partitions) if name]
    if limited and (len(limited) > 1 or len(names) != len(set(names))):
        own.remark(0, f"limits of the partitions' QoS count in each queue by itself: {', '.join(limited)}")


def default_time(partitions: Sequence[Placed], own: Reading) -> float | None:
    """The time limit of jobs that name none: that of the default partition. rankd has one for all queues."""
    if not partitions:
        return None
    taken = next((one for one, _ in partitions if one.is_default), partitions[0][0])
    for one, reading in partitions:
        if one.default_time_s != taken.default_time_s:
            message = f"partition '{one.name}': a job that names no time limit gets {_shown(taken.default_time_s)}, as"
            own_time = _shown(one.default_time_s)
            reading.remark(one.line, f"{message} in '{taken.name}'; in Slurm it gets {own_time} here; tell users")
    if taken.default_time_s is not None and len(partitions) > 1:
        own.remark(0, f"time limit of jobs that name none: {_shown(taken.default_time_s)}, from '{taken.name}'")
    return taken.default_time_s


def _shown(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g} s"
