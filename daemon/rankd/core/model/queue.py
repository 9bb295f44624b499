"""The queue hierarchy, as queues.yaml states it after checking: partitions, queues, limits.

Field names follow YuniKorn's file format where they come from it. Amounts are internal ones.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rankd.core.model.quantity import Resources

DEFAULT_PARTITION = "default"
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "root.default"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A quota per user or group in a queue and all below it."""

    limit: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    maxresources: Resources = {}
    maxapplications: int = 0


class QueueProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that rankd acts on, after parsing and inheritance."""

    priority_policy: Literal["default", "fence"] = "default"
    priority_offset: int = 0
    sort_priority: bool = True
    sort_policy: Literal["fifo", "fair", "stateaware"] = "fifo"
    priority_factor: float | None = None


class ChildTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue gets that is made below a parent on first use. ``properties`` as written, not yet parsed."""

    guaranteed: Resources = {}
    max: Resources = {}
    maxapplications: int = 0
    properties: dict[str, str] = {}


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``path`` is shown as written (``root.tenants.A``); look-ups ignore case.

    ``max`` is the configured own maximum (the effective one is the minimum down the path).
    """

    name: str
    path: str
    parent: bool = False
    guaranteed: Resources = {}
    max: Resources = {}
    maxapplications: int = 0
    submitacl: str = ""
    adminacl: str = ""
    properties: QueueProperties = QueueProperties()
    child_template: ChildTemplate | None = None
    limits: tuple[Limit, ...] = ()
    queues: tuple[Queue, ...] = ()


class NodeSort(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's node sorting policy; weights per resource type."""

    type: str = "fair"
    resourceweights: dict[str, float] = msgspec.field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A set of nodes with its queue tree, whose top is always ``root``."""

    name: str = DEFAULT_PARTITION
    root: Queue
    nodesort: NodeSort = NodeSort()
    limits: tuple[Limit, ...] = ()
