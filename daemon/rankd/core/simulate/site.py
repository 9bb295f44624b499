"""The site that a simulation runs on: settings, queues, nodes and plugins, and what a trace's jobs ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rankd.core.model.association import Association
from rankd.core.model.node import Node
from rankd.core.model.quantity import VCORE
from rankd.core.model.queue import ROOT_QUEUE, Partition, walk_queues
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.placement.request import Shape
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.factor import Factor
from rankd.core.simulate.trace import WorkJob

MILLICORES = 1000
POOL = "pool"
"""The name of the node that stands for a pool of cores."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One partition with its nodes. ``groups``: of each user who is in at least one, besides those of the trace."""

    priority: PrioritySettings
    scheduling: SchedulingSettings
    qos: Sequence[Qos]
    default_qos: str
    partition: Partition
    nodes: Sequence[Node]
    associations: Sequence[Association] = ()
    groups: Mapping[str, tuple[str, ...]] = {}
    factors: Sequence[Factor]
    node_sort: NodeSortPolicy
    application_sorts: Mapping[str, ApplicationSortPolicy]

    @property
    def processors(self) -> int:
        """The whole cores of all nodes."""
        return sum(node.capacity.get(VCORE, 0) // MILLICORES for node in self.nodes)


def pool(processors: int) -> list[Node]:
    """One node with all the cores: then it does not matter how many nodes there are, and which one a job gets."""
    return [Node(name=POOL, capacity={VCORE: processors * MILLICORES})]


def leaf_of(partition: Partition, name: str) -> str:
    """The path of the leaf queue for jobs of the trace's queue ``name``: the one with that name, else the default one.

    The default one is ``root.default``; without it, the first leaf.
    """
    leaves = [queue.path for queue in walk_queues(partition.root) if not queue.parent]
    wanted = f"{ROOT_QUEUE}.{name}".lower()
    default = f"{ROOT_QUEUE}.default"
    found = next((path for path in leaves if name and path.lower() in (wanted, name.lower())), None)
    return found or next((path for path in leaves if path.lower() == default), leaves[0])


def shape_of(processors: int, nodes: Sequence[Node], partition: str) -> Shape:
    """The request of a job for this number of processors: as few equal parts as the largest nodes allow."""
    largest = max(node.capacity.get(VCORE, 0) // MILLICORES for node in nodes)
    count = -(-processors // largest)
    return Shape(
        partition=partition,
        nodes=count,
        min_nodes=count,
        resources={VCORE: -(-processors // count) * MILLICORES},
    )


def whole_shape(job: WorkJob, nodes: Sequence[Node], partition: str) -> Shape | None:
    """The request of a job for nodes of its own; None if it shares nodes, or if too few nodes here could hold it."""
    if not job.whole_nodes or [node.name for node in nodes] == [POOL]:
        return None
    able = sum(node.capacity.get(VCORE, 0) // MILLICORES >= job.cores for node in nodes)
    if able < job.whole_nodes:
        return None
    return Shape(
        partition=partition,
        nodes=job.whole_nodes,
        min_nodes=job.whole_nodes,
        resources={VCORE: max(job.cores, 1) * MILLICORES},
        exclusive=True,
    )


def first_come(site: Site) -> Site:
    """The same site with plain first come, first served: no job passes another one."""
    return msgspec.structs.replace(
        site,
        priority=msgspec.structs.replace(site.priority, policy="fcfs"),
        scheduling=msgspec.structs.replace(site.scheduling, backfill="strict", backfill_order="rank"),
    )
