"""The queue hierarchy, as queues.yaml states it after checking: partitions, queues, limits.

Field names follow YuniKorn's file format where they come from it. Amounts are internal ones. In maxima,
guarantees and limits a type with 0 is defined (nothing of it), one that is left out is not limited, and an
empty mapping is not set.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.quantity import Resources

DEFAULT_PARTITION = "default"
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "root.default"
QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


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
    """What a queue gets that is made below a parent on first use.

    ``sort_priority`` is the template's own word, None where it has none; that of ``properties`` is not used.
    """

    guaranteed: Resources = {}
    max: Resources = {}
    maxapplications: int = 0
    properties: QueueProperties = QueueProperties()
    sort_priority: bool | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``path`` is shown as written (``root.tenants.A``); look-ups ignore case.

    ``parent`` is set for every queue that is no leaf: those with queues below, those that may get some, and
    root, which takes no jobs even where it stands alone. ``max`` is the configured own maximum (the effective
    one is the minimum down the path). ``child_template`` is the own one, or that of the nearest queue above.
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


def make_child(parent: Queue, name: str) -> Queue:
    """The leaf queue that first use makes below a parent, with the parent's child template applied.

    As everywhere, only ``disabled`` priority sorting is inherited. (YuniKorn lets such a queue inherit none.)

    Raises:
        Refused: ``queue_not_parent``, ``bad_queue_name``.
    """
    if not parent.parent:
        raise Refused("queue_not_parent", f"queue '{parent.path}' is a leaf: no queue can be made below it", "queue")
    if not QUEUE_NAME.fullmatch(name):
        raise Refused("bad_queue_name", f"'{name}' is no queue name; use 1 to 64 of a-z A-Z 0-9 _ : # / @ -", "queue")
    template = parent.child_template or ChildTemplate()
    inherited = parent.properties.sort_priority
    enabled = inherited if template.sort_priority is None else template.sort_priority
    return Queue(
        name=name,
        path=f"{parent.path}.{name}",
        guaranteed=template.guaranteed,
        max=template.max,
        maxapplications=template.maxapplications,
        properties=msgspec.structs.replace(template.properties, sort_priority=enabled),
    )


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
