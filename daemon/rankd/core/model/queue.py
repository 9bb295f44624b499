"""The queue hierarchy of queues.yaml after its checks: partitions, queues, limits.

Field names follow YuniKorn's file format where they come from it. Amounts are internal ones. In maxima, guarantees and
limits, a type with 0 allows nothing of that type, and a type that is left out is not limited. An empty mapping means
that nothing is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.quantity import Resources

DEFAULT_PARTITION = "default"
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "root.default"
ANY = "*"
"""Any user, or any group, in limits."""
QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A quota per user or group in a queue and all below it."""

    limit: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    maxresources: Resources = {}
    maxapplications: int = 0


class QueueProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that rankd acts on, after parsing and inheritance.

    ``sort_policy`` names a plugin (:class:`.ApplicationSortPolicy`).
    """

    priority_policy: Literal["default", "fence"] = "default"
    priority_offset: int = 0
    sort_priority: bool = True
    sort_policy: str = "fifo"
    priority_factor: float | None = None


class ChildTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a queue that is made below a parent on first use.

    ``sort_priority``: the value set in the template; None if it sets none. The one in ``properties`` is not used.
    """

    guaranteed: Resources = {}
    max: Resources = {}
    maxapplications: int = 0
    properties: QueueProperties = QueueProperties()
    sort_priority: bool | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``path`` is shown as written (``root.tenants.A``); look-ups ignore case.

    ``parent`` is true for every queue that is not a leaf: a queue with queues below it, a queue that may get some, and
    root. Root takes no jobs, even if it is the only queue. ``max`` is the queue's own configured maximum; the effective
    one is the minimum down the path. ``child_template`` is the queue's own, or that of the nearest queue above it.
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


def limits_of(limits: Sequence[Limit], user: str, groups: Sequence[str]) -> Iterator[tuple[str, str, Limit]]:
    """The limits of one queue that apply to a user: ("user" or "group", its name, the limit).

    A limit that names the user replaces the limit of user ``*``. Each of the user's groups with a limit has its own. If
    none of the groups has a limit, the limit of group ``*`` counts.
    """
    by_user = {name: limit for limit in limits for name in limit.users}
    by_group = {name: limit for limit in limits for name in limit.groups}
    if limit := by_user.get(user, by_user.get(ANY)):
        yield "user", user, limit
    named = [group for group in dict.fromkeys(groups) if group in by_group]
    if not named and groups and ANY in by_group:
        named = [ANY]
    for group in named:
        yield "group", group, by_group[group]


def walk_queues(queue: Queue) -> Iterator[Queue]:
    """The queue and all below, parents first."""
    yield queue
    for child in queue.queues:
        yield from walk_queues(child)


def make_child(parent: Queue, name: str) -> Queue:
    """The leaf queue that first use makes below a parent, with the parent's child template applied.

    As everywhere, only ``disabled`` priority sorting is inherited. (In YuniKorn, such a queue does not inherit it.)

    Raises:
        Refused: ``queue_not_parent``, ``bad_queue_name``.
    """
    if not parent.parent:
        raise Refused("queue_not_parent", f"queue '{parent.path}' is a leaf; it can't have queues below it", "queue")
    if not QUEUE_NAME.fullmatch(name):
        message = f"'{name}' is not a valid queue name; use 1 to 64 of a-z A-Z 0-9 _ : # / @ -"
        raise Refused("bad_queue_name", message, "queue")
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


def make_parent(parent: Queue, name: str) -> Queue:
    """A queue between ``parent`` and a leaf that is made on first use. It is a parent with the same child template.

    Raises:
        Refused: as :func:`make_child`.
    """
    child = make_child(parent, name)
    return Queue(
        name=name,
        path=child.path,
        parent=True,
        properties=QueueProperties(sort_priority=parent.properties.sort_priority),
        child_template=parent.child_template,
    )


def make_path(parent: Queue, names: Sequence[str]) -> tuple[Queue, ...]:
    """The queues that first use of a path below ``parent`` makes, the leaf last.

    Raises:
        Refused: as :func:`make_child`.
    """
    made: list[Queue] = []
    for name in names[:-1]:
        made.append(make_parent(made[-1] if made else parent, name))
    return (*made, make_child(made[-1] if made else parent, names[-1]))


def allows_children(queue: Queue) -> bool:
    """Whether first use makes queues below this one: it is a parent, and it or a queue above has a child template."""
    return queue.parent and queue.child_template is not None


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


def sort_policies(partitions: Iterable[Partition]) -> set[str]:
    """The application sorting policies of leaf queues, and of leaf queues that first use may make."""
    queues = [queue for partition in partitions for queue in walk_queues(partition.root)]
    properties = [queue.properties for queue in queues if not queue.parent]
    properties += [queue.child_template.properties for queue in queues if queue.child_template is not None]
    return {own.sort_policy for own in properties}


def with_made(partition: Partition, paths: Iterable[str]) -> Partition:
    """The partition with leaf queues that first use made, in this order after their siblings.

    A path is left out if the tree does not allow it (any more): no queue on it has a template, or an existing leaf is
    on the path. A path that exists already changes nothing.
    """
    wanted = [
        names[1:] for names in (path.split(".") for path in paths) if names[0].lower() == ROOT_QUEUE and names[1:]
    ]
    return msgspec.structs.replace(partition, root=_grown(partition.root, wanted)) if wanted else partition


def _grown(queue: Queue, wanted: Sequence[Sequence[str]]) -> Queue:
    by_name: dict[str, list[Sequence[str]]] = {}
    for names in wanted:
        by_name.setdefault(names[0].lower(), []).append(names)
    there = {child.name.lower() for child in queue.queues}
    queues = [_below(child, by_name.get(child.name.lower(), [])) for child in queue.queues]
    if allows_children(queue):
        for key, found in by_name.items():
            if key not in there and QUEUE_NAME.fullmatch(found[0][0]):
                make = make_child if len(found[0]) == 1 else make_parent
                queues.append(_below(make(queue, found[0][0]), found))
    return msgspec.structs.replace(queue, queues=tuple(queues))


def _below(queue: Queue, wanted: Sequence[Sequence[str]]) -> Queue:
    deeper = [names[1:] for names in wanted if len(names) > 1]
    return _grown(queue, deeper) if deeper and queue.parent else queue
