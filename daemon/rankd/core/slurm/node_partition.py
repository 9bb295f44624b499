"""The nodes of Slurm's partitions. Partitions that share nodes become queues of one partition of rankd's.

A queue of rankd's runs on all nodes of its partition, and a node is in one partition. So partitions of Slurm's without
a common node stay apart, and others get a remark if their nodes differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.model.nodelist import fold, unfold
from rankd.core.model.queue import DEFAULT_PARTITION
from rankd.core.slurm.partition import Partition
from rankd.core.slurm.reading import Reading

Placed = tuple[Partition, Reading]

_LONG_NUMBER = re.compile(r"[0-9]{16}")
_MOST_SHOWN = 200


class NodePartitions(msgspec.Struct, frozen=True, kw_only=True):
    """``of``: the partition of rankd's by the name of Slurm's. ``nodes``: its nodes; empty if they are not known."""

    of: Mapping[str, str] = {}
    nodes: Mapping[str, frozenset[str]] = {}


def node_partitions(partitions: Sequence[Placed], known: Iterable[str], own: Reading) -> NodePartitions:
    """Which partition of rankd's each partition becomes. ``known``: the nodes that Slurm's files list.

    A partition that is closed to users joins no others, as it runs nothing.
    """
    everywhere = frozenset(known)
    partitions = [one for one in partitions if not one[0].access.closed]
    nodes = {one.name: _nodes(one, everywhere, reading) for one, reading in partitions}
    if not partitions or any(not found for found in nodes.values()):
        return NodePartitions(of=dict.fromkeys(nodes, DEFAULT_PARTITION))
    if unused := everywhere.difference(*nodes.values()):
        message = f"{fold(unused)[:_MOST_SHOWN]}: in no partition that users may use, so these nodes may not join"
        own.remark(0, f"{message} ([nodes] known); on such a head, start `rankd up --no-local-agent`")
    groups = _connected(nodes)
    first = next((one.name for one, _ in partitions if one.is_default), partitions[0][0].name)
    named = {DEFAULT_PARTITION if first in group else _plain(group[0]): group for group in groups}
    if len(named) < len(groups):
        own.remark(0, "partitions have names that differ in special characters only; all nodes are in one partition")
        return NodePartitions(of=dict.fromkeys(nodes, DEFAULT_PARTITION))
    together = {name: frozenset().union(*(nodes[one] for one in group)) for name, group in named.items()}
    of = {one: name for name, group in named.items() for one in group}
    _remark(partitions, NodePartitions(of=of, nodes=together), nodes, own)
    return NodePartitions(of=of, nodes=together)


def _nodes(partition: Partition, everywhere: frozenset[str], reading: Reading) -> frozenset[str]:
    """The nodes of a partition; empty if they can't be told."""
    if not partition.nodes:
        return everywhere
    try:
        found = frozenset() if _LONG_NUMBER.search(partition.nodes) else frozenset(unfold(partition.nodes))
    except ValueError:
        found = frozenset()
    if not found or (everywhere and not found <= everywhere):
        shown = partition.nodes[:_MOST_SHOWN]
        message = f"partition '{partition.name}': Nodes={shown} are not all in a line of NodeName or can't be read"
        reading.remark(partition.line, f"{message}; its queue runs on all nodes")
        return frozenset()
    return found


def _connected(nodes: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """The partitions in groups: those of one group are linked by common nodes. Groups have the order of the file."""
    group_of: dict[str, list[str]] = {}
    by_node: dict[str, list[str]] = {}
    for name, own in nodes.items():
        touched = list({id(by_node[node]): by_node[node] for node in own if node in by_node}.values())
        group = [*(member for other in touched for member in other), name]
        for member in group:
            group_of[member] = group
            by_node.update(dict.fromkeys(nodes[member], group))
    order = list(nodes)
    groups = {id(group): group for group in group_of.values()}
    return sorted((sorted(group, key=order.index) for group in groups.values()), key=lambda one: order.index(one[0]))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64]


def _remark(
    partitions: Sequence[Placed], found: NodePartitions, nodes: Mapping[str, frozenset[str]], own: Reading
) -> None:
    for name, members in found.nodes.items():
        if name != DEFAULT_PARTITION:
            shown = fold(members)[:_MOST_SHOWN]
            own.remark(
                0, f"start the agents of {shown} with --partition {name}, as queues of partition {name} use them"
            )
    for partition, reading in partitions:
        where = found.of[partition.name]
        if nodes[partition.name] != found.nodes[where]:
            label = _plain(partition.name)
            reading.remark(
                partition.line,
                f"partition '{partition.name}': no equivalent in rankd for Nodes={partition.nodes[:_MOST_SHOWN]}: other"
                f" partitions share them, so jobs of this queue may run on {fold(found.nodes[where])[:_MOST_SHOWN]};"
                f" start the agents of its nodes with --labels {label}=yes, and tell its users to give -C {label}",
            )
