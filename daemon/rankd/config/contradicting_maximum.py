"""Warnings about amounts of GPUs in queues.yaml that can have no effect, since another amount is always reached first.

``gpu`` counts all models, so a model's amount above it counts for nothing, and neither does a ``gpu`` above the sum of
all models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rankd.config.unoffered_maximum import FILE
from rankd.core.errors import Problem
from rankd.core.model.device import GPU, kind_of, model_of
from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import Limit, Partition, Queue


def contradicting_maxima(partitions: Iterable[Partition], nodes: Sequence[Node]) -> list[Problem]:
    """A warning for each maximum, guarantee and limit of GPUs that another one makes useless.

    ``nodes``: those that have registered; without any, it is not known whether a queue names all models.
    """
    models = frozenset(kind_of(device.model) for node in nodes for device in node.devices)
    return [
        Problem(file=FILE, path=path, message=message)
        for partition in partitions
        for path, amounts, above in _places(partition)
        for message in _useless(amounts, above, models)
    ]


def _places(partition: Partition) -> Iterator[tuple[str, Resources, Resources]]:
    """Each place with its amounts, and with the maxima that hold there as well."""
    yield from _of_limits(partition.limits, f"partition {partition.name}", {})
    yield from _of_queue(partition.root, {})


def _of_queue(queue: Queue, above: Resources) -> Iterator[tuple[str, Resources, Resources]]:
    yield f"{queue.path}.resources.max", queue.max, above
    own = {kind: min(above.get(kind, amount), amount) for kind, amount in queue.max.items()}
    most = {**above, **own}
    yield f"{queue.path}.resources.guaranteed", queue.guaranteed, most
    yield from _of_limits(queue.limits, queue.path, most)
    for child in queue.queues:
        yield from _of_queue(child, most)


def _of_limits(limits: Iterable[Limit], path: str, above: Resources) -> Iterator[tuple[str, Resources, Resources]]:
    for limit in limits:
        yield f"{path}.limits.maxresources", limit.maxresources, above


def _useless(amounts: Resources, above: Resources, models: frozenset[str]) -> Iterator[str]:
    """What is wrong with the amounts of one place."""
    own = amounts.get(GPU)
    every = min((one for one in (own, above.get(GPU)) if one is not None), default=None)
    named = {kind: amount for kind, amount in amounts.items() if model_of(kind) is not None}
    for kind, amount in named.items():
        if every is not None and amount > every:
            where = "" if every == own else " of a queue above it, or of this queue"
            yield (
                f"{kind} {amount} is above {GPU} {every}{where}, which counts all models, so it limits nothing;"
                f" write at most {every}, or remove it"
            )
    total = _sum(named, models)
    if own is not None and total is not None and own > total:
        yield (
            f"{GPU} {own} is above the sum of its models ({total}), and nodes offer no others, so it limits nothing;"
            f" write less than {total}, or remove it"
        )


def _sum(named: Mapping[str, int], models: frozenset[str]) -> int | None:
    """The sum of the models' amounts; None if nodes offer another model, or if none is known."""
    return sum(named[kind] for kind in models) if models and models <= named.keys() else None
