"""Whether the present nodes could ever hold a job, if they were empty (``admission.refuse_unfit``)."""

from __future__ import annotations

from collections.abc import Sequence

from rankd.core.errors import Refused
from rankd.core.model.device import with_failed
from rankd.core.model.job import AcceptedJob
from rankd.core.model.node import Node
from rankd.core.placement.constraint import parse_constraints, satisfied
from rankd.core.placement.request import Shape, described_request


def shape_of(accepted: AcceptedJob) -> Shape:
    """What the job asks of its nodes."""
    return Shape(
        partition=accepted.partition,
        nodes=accepted.nodes,
        min_nodes=accepted.min_nodes,
        resources=accepted.resources,
        constraints=accepted.request.constraints,
        exclusive=accepted.request.exclusive,
    )


def check_fit(shape: Shape, nodes: Sequence[Node]) -> None:
    """Check that enough of these nodes could hold the shape, by labels and capacity.

    Raises:
        Refused: ``no_node_fits``.
    """
    terms = parse_constraints(shape.constraints)
    own = [node for node in nodes if node.partition == shape.partition]
    n_able = sum(_could_hold(node, shape) and satisfied(terms, node.labels, node.name) for node in own)
    if n_able < shape.min_nodes:
        message = (
            f"the job asks for {described_request(shape)}, but {n_able} of the {len(own)}"
            f" nodes in partition '{shape.partition}' could ever hold that; ask for less, or for another partition"
        )
        raise Refused("no_node_fits", message, "resources")


def _could_hold(node: Node, shape: Shape) -> bool:
    capacity = with_failed(node.capacity, node.devices)
    return all(amount <= capacity.get(kind, 0) for kind, amount in shape.resources.items())
