"""The site of ``rankd simulate``: a configuration, or the defaults, with what the command line says instead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_factor, load_node_sort
from rankd.config.queues import read_queue_document
from rankd.core.admission.node_check import MAX_DEVICES, check_name, node_capacity
from rankd.core.errors import Refused
from rankd.core.model.device import Device, model_of
from rankd.core.model.node import Node
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import VCORE, Amount, parse_amount
from rankd.core.model.queue import DEFAULT_PARTITION, Partition
from rankd.core.model.setting import Settings
from rankd.core.near_name import cut
from rankd.core.placement.backfill_rule import useless_order
from rankd.core.placement.problem import Backfill, BackfillOrder
from rankd.core.simulate.route import check_routes
from rankd.core.simulate.site import MILLICORES, SimulatedPartition, Site, is_pool
from rankd.plugin.worker_factor import START_S, start_workers

Policy = Literal["multifactor", "class", "fcfs"]
MOST_NODES = 100_000
FIRST = ""
"""The partition of nodes that name none: the first one of the site."""
GROUP = 4
"""The number of devices of a simulated node that are linked, as ``rankd agent --device`` makes them."""
_QUEUES = [{"name": "root", "queues": [{"name": "default"}]}]


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says instead of the configuration; None leaves it. ``routes``: as in :class:`.Site`."""

    policy: Policy | None = None
    backfill: Backfill | None = None
    backfill_order: BackfillOrder | None = None
    routes: Mapping[str, str] = {}


def simulated_site(configuration: Configuration | None, varied: Varied, nodes: Sequence[Node]) -> Site:
    """The site: the partitions of the configuration, on these nodes. A pool is in the first one, the only one then.

    Raises:
        ConfigurationError: a plugin can't be used.
        Refused: ``usage``: a backfill order without effect, a node of an unknown partition, a route to nowhere.
    """
    settings = Settings() if configuration is None else configuration.settings
    partitions = _partitions(configuration, nodes)
    check_routes(varied.routes, partitions)
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
        partitions=partitions,
        associations=() if configuration is None else configuration.associations,
        groups={} if configuration is None else configuration.groups,
        routes=varied.routes,
        factors=factors,
        application_sorts=load_application_sorts([own.partition for own in partitions]),
    )


def _partitions(configuration: Configuration | None, nodes: Sequence[Node]) -> list[SimulatedPartition]:
    if configuration is None:
        names = list(dict.fromkeys(node.partition or DEFAULT_PARTITION for node in nodes)) or [DEFAULT_PARTITION]
        known = read_queue_document({"partitions": [{"name": name, "queues": _QUEUES} for name in names]}).partitions
    else:
        known = configuration.partitions[:1] if is_pool(nodes) else configuration.partitions
    own: dict[str, list[Node]] = {partition.name: [] for partition in known}
    for node in nodes:
        name = node.partition or known[0].name
        if name not in own:
            raise _unknown_partition(node, known)
        own[name].append(msgspec.structs.replace(node, partition=name))
    return [
        SimulatedPartition(
            partition=partition,
            nodes=own[partition.name],
            node_sort=load_node_sort(partition.nodesort.type),
        )
        for partition in known
    ]


def _unknown_partition(node: Node, known: Sequence[Partition]) -> Refused:
    names = ", ".join(partition.name for partition in known)
    message = (
        f"the node '{node.name}' belongs to the partition '{cut(node.partition)}', which is not configured; there are:"
        f" {names}. List nodes with other partitions in a file, and give it with --nodes"
    )
    return Refused("usage", message, "nodes")


def read_nodes(text: str) -> list[Node]:
    """The nodes of a JSON document: ``{"n[01-16]": {"vcore": 64, "gpu:a100": 4, "partition": "gpu"}}``.

    A node without ``partition`` is in :data:`FIRST`. Each GPU with a model becomes a device.

    Raises:
        Refused: ``bad_nodes``: it can't be read, or a node is not a possible one.
    """
    try:
        document = msgspec.json.decode(text, type=Mapping[str, dict[str, int | float | str]])
        nodes = _all_nodes(document)
    except (msgspec.DecodeError, ValueError, Refused, RecursionError) as error:
        example = json.dumps({"n[01-16]": {"vcore": 64}, "g[1-2]": {"vcore": 32, "gpu:a100": 4, "partition": "gpu"}})
        raise Refused("bad_nodes", f"the nodes can't be read: {error}; write {example}", "nodes") from None
    if len({node.name for node in nodes}) < len(nodes):
        raise Refused("bad_nodes", "a node is listed twice; list each once", "nodes")
    if not any(node.capacity.get(VCORE, 0) >= MILLICORES for node in nodes):
        raise Refused("bad_nodes", "no node has a core; give vcore", "nodes")
    return nodes


def _all_nodes(document: Mapping[str, dict[str, Amount]]) -> list[Node]:
    nodes: list[Node] = []
    for names, given in document.items():
        listed = unfold(names)
        if len(nodes) + len(listed) > MOST_NODES:
            raise ValueError(f"{len(nodes) + len(listed)} nodes; at most {MOST_NODES} are simulated")
        nodes += _nodes(listed, given)
    return nodes


def _nodes(names: Sequence[str], given: dict[str, Amount]) -> list[Node]:
    """The nodes of one entry."""
    partition = given.pop("partition", FIRST)
    check_name(str(partition) or DEFAULT_PARTITION, "partition")
    numbers = {model: parse_amount(kind, given[kind]) for kind in sorted(given) if (model := model_of(kind))}
    if sum(numbers.values()) > MAX_DEVICES:
        raise ValueError(f"'{cut(names[0])}' has more than {MAX_DEVICES} GPUs")
    models = [model for model, number in numbers.items() for _ in range(number)]
    amounts = {kind: amount for kind, amount in given.items() if not model_of(kind)}
    capacity = node_capacity(amounts, _devices(names[0], models)) if names else {}
    return [
        Node(name=name, partition=str(partition), capacity=capacity, devices=_devices(name, models)) for name in names
    ]


def _devices(name: str, models: Sequence[str]) -> tuple[Device, ...]:
    return tuple(
        Device(model=model, id=f"{name}-gpu-{place}", index=place, group=place // GROUP)
        for place, model in enumerate(models)
    )
