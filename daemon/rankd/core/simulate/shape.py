"""What a job of a trace asks the nodes of its partition for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rankd.core.model.device import GPU, model_of, with_sum
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.placement.request import Shape
from rankd.core.simulate.site import MILLICORES, SimulatedPartition
from rankd.core.simulate.trace import Amounts, WorkJob


def asked_of(others: Amounts, types: Collection[str]) -> Resources:
    """The amounts of types that the site's nodes offer. Of other types, nobody knows what the nodes have.

    Nodes that offer ``gpu`` without a model have any model.
    """
    asked: Resources = {}
    has_models = any(model_of(kind) is not None for kind in types)
    for kind, amount in others:
        counted = GPU if model_of(kind) is not None and not has_models else kind
        if counted in types or (model_of(counted) is not None and has_models):
            asked[counted] = asked.get(counted, 0) + amount
    return asked


def shape_of(job: WorkJob, own: SimulatedPartition, types: Collection[str]) -> Shape:
    """The request of a job.

    A job with whole nodes asks for as many whole nodes, and one whose number of nodes is known for as many parts. If
    too few nodes here could ever hold them, or if the partition is a pool, it asks for as few equal parts as the
    largest nodes allow. So do all other jobs.
    """
    asked = asked_of(job.others, types) if job.others else {}
    found = None if own.is_pool else _whole(job, asked, own) or _as_asked(job, asked, own)
    return found or _in_parts(job, asked, own)


def _whole(job: WorkJob, asked: Mapping[str, int], own: SimulatedPartition) -> Shape | None:
    if not job.whole_nodes:
        return None
    part = {VCORE: max(job.cores, 1) * MILLICORES} | _part(asked, job.whole_nodes)
    return _if_able(job.whole_nodes, part, own, exclusive=True)


def _as_asked(job: WorkJob, asked: Mapping[str, int], own: SimulatedPartition) -> Shape | None:
    if not job.nodes:
        return None
    return _if_able(job.nodes, _cores(job, job.nodes) | _part(asked, job.nodes), own, exclusive=False)


def _if_able(count: int, part: Mapping[str, int], own: SimulatedPartition, *, exclusive: bool) -> Shape | None:
    """A request for ``count`` parts; None if fewer nodes than that could hold one."""
    if sum(number for capacity, number in own.kinds if _holds(capacity, part)) < count:
        return None
    return _shape(own, count, part, exclusive=exclusive)


def _in_parts(job: WorkJob, asked: Resources, own: SimulatedPartition) -> Shape:
    total = {VCORE: job.processors * MILLICORES} | asked
    fewest = max(_fewest(kind, amount, own) for kind, amount in total.items())
    most = max(fewest, len(own.nodes))
    while fewest < most:  # the parts get smaller with their number
        count = (fewest + most) // 2
        part = _cores(job, count) | _part(asked, count)
        if any(_holds(capacity, part) for capacity, _ in own.kinds):
            most = count
        else:
            fewest = count + 1
    return _shape(own, most, _cores(job, most) | _part(asked, most), exclusive=False)


def _fewest(kind: str, amount: int, own: SimulatedPartition) -> int:
    """The fewest parts of which the node with the most of this type could hold one."""
    unit = MILLICORES if kind == VCORE else 1
    largest = max((capacity.get(kind, 0) // unit for capacity, _ in own.kinds), default=0)
    return -(-(amount // unit) // largest) if largest else 1


def _cores(job: WorkJob, count: int) -> Resources:
    return {VCORE: -(-job.processors // count) * MILLICORES}


def _part(asked: Mapping[str, int], count: int) -> Resources:
    return {kind: -(-amount // count) for kind, amount in asked.items()}


def _holds(capacity: Mapping[str, int], part: Mapping[str, int]) -> bool:
    return all(capacity.get(kind, 0) >= amount for kind, amount in part.items())


def _shape(own: SimulatedPartition, count: int, part: Mapping[str, int], *, exclusive: bool) -> Shape:
    return Shape(
        partition=own.partition.name, nodes=count, min_nodes=count, resources=with_sum(part), exclusive=exclusive
    )
