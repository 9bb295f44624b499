"""The nodes of a document, and the amounts that its running jobs hold."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rankd.core.errors import Problem
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.amount import add, read_amounts
from rankd.core.evaluate.document import Document
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.device import GPU, is_device_kind, offered, with_models, with_sum
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import Resources

COUNTED = (NodeState.UP, NodeState.DRAINING)


class Held(msgspec.Struct, frozen=True):
    """The amounts that a running job holds on one node. ``since``: UTC seconds."""

    job: Job
    resources: Resources
    since: float


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that any job, accepted or not, has on one node. ``time_limit_s``: the job's own, if it has one.

    ``devices``: their ids.
    """

    node: str
    resources: Resources
    exclusive: bool
    since: float
    time_limit_s: float | None
    devices: tuple[str, ...] = ()


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes with their used amounts, and the amounts held by each job.

    ``totals`` and ``counts``: by partition, the amounts and the number of all nodes that are up or draining. These are
    the denominators of shares.
    """

    nodes: list[Node]
    held: list[Held]
    parts: list[Part]
    totals: list[Resources]
    counts: list[int]

    def of(self, partition: str) -> list[Node]:
        """The nodes of a partition."""
        return [node for node in self.nodes if node.partition == partition]


def read_inventory(
    document: Document, catalogue: QueueCatalogue, active: Sequence[Job], problems: list[Problem]
) -> Inventory:
    """Read the nodes and allocations. Amounts that are not valid are added to ``problems``.

    An exclusive job holds all amounts of its nodes. The ``used`` of a node replaces the sum of its allocations.
    """
    nodes = {node.name: node for node in _nodes(document, catalogue, problems)}
    parts = _parts(document, nodes, problems)
    held, used = _held(document, parts, active)
    stated = {entry.name for entry in document.nodes if entry.used is not None}
    for name in used.keys() - stated:
        nodes[name] = msgspec.structs.replace(nodes[name], used=used[name])
    totals: dict[str, Resources] = {name: {} for name in catalogue.names}
    counts = dict.fromkeys(catalogue.names, 0)
    for node in nodes.values():
        if node.state in COUNTED and node.partition in totals:
            add(totals[node.partition], node.capacity)
            counts[node.partition] += 1
    return Inventory(
        nodes=list(nodes.values()),
        held=held,
        parts=parts,
        totals=list(totals.values()),
        counts=list(counts.values()),
    )


def _nodes(document: Document, catalogue: QueueCatalogue, problems: list[Problem]) -> list[Node]:
    first = catalogue.names[0] if catalogue.names else ""
    return [
        Node(
            name=entry.name,
            partition=first if entry.partition is None else entry.partition,
            capacity=offered(
                read_amounts(entry.capacity, f"$.nodes[{place}].capacity", problems, keep_zeros=True), entry.devices
            ),
            used=read_amounts(entry.used or {}, f"$.nodes[{place}].used", problems),
            labels=entry.labels,
            state=entry.state,
            devices=tuple(entry.devices),
        )
        for place, entry in enumerate(document.nodes)
    ]


def _parts(document: Document, nodes: dict[str, Node], problems: list[Problem]) -> list[Part]:
    """The amounts that jobs have on nodes, in the order of the allocations."""
    entries = {entry.id: entry for entry in document.jobs} if document.allocations else {}
    parts: list[Part] = []
    for place, allocation in enumerate(document.allocations):
        entry = entries[allocation.job]
        given = entry.resources if allocation.resources is None else allocation.resources
        amounts = with_sum(read_amounts(given, f"$.allocations[{place}].resources", problems))
        node, held = nodes[allocation.node], tuple(allocation.devices.get(allocation.node, ()))
        parts.append(
            Part(
                node=node.name,
                resources=_with_devices(node.capacity if entry.exclusive else amounts, amounts, node, held),
                devices=held,
                exclusive=entry.exclusive,
                since=document.now if allocation.started_at is None else allocation.started_at,
                time_limit_s=entry.time_limit_s,
            )
        )
    return parts


def _with_devices(whole: Resources, asked: Resources, node: Node, held: Sequence[str]) -> Resources:
    """The amounts with the models of the devices that are held.

    What is stated counts if it names the model of each: the node may list another one under that id now. It also counts
    if the node does not list a device any more, or none at all.
    """
    stated = {kind: amount for kind, amount in asked.items() if is_device_kind(kind)}
    if not node.devices:
        return whole | {kind: max(amount, whole.get(kind, 0)) for kind, amount in stated.items()}
    n_named = sum(amount for kind, amount in stated.items() if kind != GPU)
    models = {device.id: device.model for device in node.devices}
    if n_named == len(held) or not all(id_ in models for id_ in held):
        return with_models(whole, ()) | stated
    return with_models(whole, [models[id_] for id_ in held])


def _held(document: Document, parts: Sequence[Part], active: Sequence[Job]) -> tuple[list[Held], dict[str, Resources]]:
    """The amounts that accepted jobs hold, and by node the sum for all jobs.

    Jobs that were not accepted are part of the sum, because they use their nodes too.
    """
    jobs = {job.entry.id: job for job in active}
    held: list[Held] = []
    used: dict[str, Resources] = {}
    for allocation, part in zip(document.allocations, parts, strict=True):
        add(used.setdefault(part.node, {}), part.resources)
        if job := jobs.get(allocation.job):
            held.append(Held(job, part.resources, part.since))
    return held, used
