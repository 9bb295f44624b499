"""Whether the present nodes could ever hold a job, if they were empty (``admission.refuse_unfit``)."""

from __future__ import annotations

from collections.abc import Sequence

from rankd.core.admission.offered import Bounds
from rankd.core.admission.user_limit import QUEUE
from rankd.core.errors import Refused
from rankd.core.model.amount_text import compared
from rankd.core.model.device import with_failed
from rankd.core.model.job import AcceptedJob
from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources
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


def check_fit(shape: Shape, nodes: Sequence[Node], bounds: Bounds = ()) -> None:
    """Check that enough of these nodes could hold the shape, by labels and capacity.

    ``bounds``: the maxima and limits that apply to an exclusive job, which counts with all that its nodes have.

    Raises:
        Refused: ``no_node_fits``; ``queue_quota``, ``user_limit``: whole nodes are more than a maximum or limit.
    """
    terms = parse_constraints(shape.constraints)
    own = [node for node in nodes if node.partition == shape.partition]
    able = [node for node in own if _could_hold(node, shape) and satisfied(terms, node.labels, node.name)]
    n_able = len(able)
    if n_able < shape.min_nodes:
        message = (
            f"the job asks for {described_request(shape)}, but {n_able} of the {len(own)}"
            f" nodes in partition '{shape.partition}' could ever hold that; ask for less, or for another partition"
        )
        raise Refused("no_node_fits", message, "resources")
    if shape.exclusive:
        _check_whole([with_failed(node.capacity, node.devices) for node in able], shape.min_nodes, bounds)


def _check_whole(able: Sequence[Resources], nodes: int, bounds: Bounds) -> None:
    """Check that the smallest of these nodes, taken whole, are within the bounds."""
    for whose, most in bounds:
        for kind, limit in most.items():
            least = sum(sorted(capacity.get(kind, 0) for capacity in able)[:nodes])
            if least > limit:
                held, may = compared(kind, least, limit)
                message = (
                    f"the job is exclusive and would hold {kind} {held} at least, but the limit of {whose} is {may};"
                    " leave out --exclusive"
                )
                raise Refused("queue_quota" if whose.startswith(QUEUE) else "user_limit", message, "exclusive")


def _could_hold(node: Node, shape: Shape) -> bool:
    capacity = with_failed(node.capacity, node.devices)
    return all(amount <= capacity.get(kind, 0) for kind, amount in shape.resources.items())
