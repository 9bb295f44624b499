"""The site of ``rankd simulate``: a configuration, or the defaults, with what the command line says instead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_factor, load_node_sort
from rankd.config.queues import read_queue_document
from rankd.core.admission.node_check import node_capacity
from rankd.core.errors import Refused
from rankd.core.model.association import Association
from rankd.core.model.node import Node
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import VCORE
from rankd.core.model.queue import Partition
from rankd.core.model.setting import Settings
from rankd.core.placement.backfill_rule import useless_order
from rankd.core.placement.problem import Backfill, BackfillOrder
from rankd.core.simulate.site import MILLICORES, Site
from rankd.plugin.worker_factor import START_S, start_workers

Policy = Literal["multifactor", "class", "fcfs"]
MOST_NODES = 100_000
_QUEUES = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [{"name": "default"}]}]}]}


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says instead of the configuration; None leaves it."""

    policy: Policy | None = None
    backfill: Backfill | None = None
    backfill_order: BackfillOrder | None = None


def simulated_site(configuration: Configuration | None, varied: Varied, nodes: Sequence[Node]) -> Site:
    """The site: the first partition of the configuration, on these nodes.

    Raises:
        ConfigurationError: a plugin can't be used.
        Refused: ``usage``: a backfill order without effect.
    """
    settings = Settings() if configuration is None else configuration.settings
    partition = _partition(configuration)
    priority = (
        settings.priority if varied.policy is None else msgspec.structs.replace(settings.priority, policy=varied.policy)
    )
    scheduling = msgspec.structs.replace(
        settings.scheduling,
        backfill=varied.backfill or settings.scheduling.backfill,
        backfill_order=varied.backfill_order or settings.scheduling.backfill_order,
    )
    if (message := useless_order(scheduling)) is not None:
        raise Refused("usage", f"--backfill-order: {message}", "backfill_order")
    factors = [load_factor(name, priority, is_live=False) for name in priority.weights]
    start_workers(factors, START_S)
    return Site(
        priority=priority,
        scheduling=scheduling,
        qos=settings.qos,
        default_qos=settings.default_qos,
        partition=partition,
        nodes=[msgspec.structs.replace(node, partition=partition.name) for node in nodes],
        associations=_associations(configuration),
        groups={} if configuration is None else configuration.groups,
        factors=factors,
        node_sort=load_node_sort(partition.nodesort.type),
        application_sorts=load_application_sorts([partition]),
    )


def _partition(configuration: Configuration | None) -> Partition:
    if configuration is not None:
        return configuration.partitions[0]
    return read_queue_document(_QUEUES).partitions[0]


def _associations(configuration: Configuration | None) -> Sequence[Association]:
    return () if configuration is None else configuration.associations


def read_nodes(text: str) -> list[Node]:
    """The nodes of a JSON document: ``{"n[01-16]": {"vcore": 64, "memory": "256Gi"}}``.

    Raises:
        Refused: ``bad_nodes``: it can't be read, or a node is not a possible one.
    """
    try:
        document = msgspec.json.decode(text, type=Mapping[str, Mapping[str, int | float | str]])
        named = [(name, node_capacity(amounts)) for names, amounts in document.items() for name in unfold(names)]
    except (msgspec.DecodeError, ValueError, Refused, RecursionError) as error:
        example = json.dumps({"n[01-16]": {"vcore": 64}})
        raise Refused("bad_nodes", f"the nodes can't be read: {error}; write {example}", "nodes") from None
    if len(named) > MOST_NODES:
        raise Refused("bad_nodes", f"{len(named)} nodes; at most {MOST_NODES} are simulated", "nodes")
    nodes = {name: Node(name=name, capacity=capacity) for name, capacity in named}
    if len(nodes) < len(named):
        raise Refused("bad_nodes", "a node is listed twice; list each once", "nodes")
    if not any(node.capacity.get(VCORE, 0) >= MILLICORES for node in nodes.values()):
        raise Refused("bad_nodes", "no node has a core; give vcore", "nodes")
    return list(nodes.values())
