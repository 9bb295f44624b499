"""The site that a simulation runs on: settings, partitions with their queues and nodes, and plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from rankd.core.model.association import Association
from rankd.core.model.node import Node
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.queue import DEFAULT_QUEUE, ROOT_QUEUE, Partition, walk_queues
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings
from rankd.core.placement.node_set import totals
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.factor import Factor

MILLICORES = 1000
POOL = "[pool]"
"""The name of the node that stands for a pool of cores. No other node can have it."""


class SimulatedPartition(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A partition and its nodes."""

    partition: Partition
    nodes: Sequence[Node]
    node_sort: NodeSortPolicy

    @property
    def is_pool(self) -> bool:
        """Whether its node stands for a pool of cores."""
        return is_pool(self.nodes)

    @cached_property
    def totals(self) -> Resources:
        """What all its nodes have together."""
        return totals(self.nodes)

    @property
    def processors(self) -> int:
        """The whole cores of all its nodes."""
        return sum(node.capacity.get(VCORE, 0) // MILLICORES for node in self.nodes)

    @cached_property
    def kinds(self) -> list[tuple[Resources, int]]:
        """The different capacities of its nodes, and how many nodes have each."""
        numbers: dict[tuple[tuple[str, int], ...], int] = {}
        for node in self.nodes:
            key = tuple(sorted(node.capacity.items()))
            numbers[key] = numbers.get(key, 0) + 1
        return [(dict(key), number) for key, number in numbers.items()]

    @property
    def leaves(self) -> list[str]:
        """The paths of its leaf queues."""
        return [queue.path for queue in walk_queues(self.partition.root) if not queue.parent]


class Site(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the daemon would read from its configuration and its records.

    ``groups``: of each user who is in at least one, besides those of the trace. ``routes``: the partition or the path
    of the leaf queue for jobs of a queue or a partition of the trace, by its name in lower case.
    """

    priority: PrioritySettings
    scheduling: SchedulingSettings
    qos: Sequence[Qos]
    default_qos: str
    partitions: Sequence[SimulatedPartition]
    associations: Sequence[Association] = ()
    groups: Mapping[str, tuple[str, ...]] = {}
    routes: Mapping[str, str] = {}
    factors: Sequence[Factor]
    application_sorts: Mapping[str, ApplicationSortPolicy]

    @property
    def processors(self) -> int:
        """The whole cores of all nodes."""
        return sum(own.processors for own in self.partitions)

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of resources that nodes offer. Only these count: no job waits for others."""
        return frozenset(kind for own in self.partitions for kind in own.totals)


def pool(processors: int) -> list[Node]:
    """One node with all the cores: then it does not matter how many nodes there are, and which one a job gets."""
    return [Node(name=POOL, partition="", capacity={VCORE: processors * MILLICORES})]


def is_pool(nodes: Sequence[Node]) -> bool:
    """Whether these nodes are a pool of cores."""
    return len(nodes) == 1 and nodes[0].name == POOL


def leaf_named(leaves: Sequence[str], name: str) -> str | None:
    """The path of the leaf with this name or path, whatever the case; None if there is none."""
    wanted = f"{ROOT_QUEUE}.{name}".lower()
    return next((path for path in leaves if name and path.lower() in (wanted, name.lower())), None)


def leaf_of(leaves: Sequence[str], name: str) -> str:
    """The path of the leaf for jobs of the trace's queue ``name``: the one with that name, else the default one.

    The default one is ``root.default``; without it, the first leaf.
    """
    return leaf_named(leaves, name) or leaf_named(leaves, DEFAULT_QUEUE) or leaves[0]


def first_come(site: Site) -> Site:
    """The same site with plain first come, first served: no job passes another one."""
    return msgspec.structs.replace(
        site,
        priority=msgspec.structs.replace(site.priority, policy="fcfs"),
        scheduling=msgspec.structs.replace(site.scheduling, backfill="strict", backfill_order="rank"),
    )
