"""Warnings about maxima, guarantees and limits in queues.yaml that name a type of resource that no node offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rankd.core.errors import Problem
from rankd.core.fairshare.node_price import known_types
from rankd.core.model.device import GPU, model_of
from rankd.core.model.node import Node
from rankd.core.model.queue import ChildTemplate, Limit, Partition, Queue, walk_queues
from rankd.core.near_name import near_name

FILE = "queues.yaml"
MOST_NAMED = 10


def unoffered_maxima(partitions: Iterable[Partition], nodes: Sequence[Node]) -> list[Problem]:
    """A warning for each type and the first place that names it. Without registered nodes, nothing is known.

    A type that nobody offers limits nothing: usually its name is wrong, such as ``gpus`` or ``gpu:A100-SXM``.
    """
    known = known_types(nodes)
    if not known:
        return []
    places: dict[str, list[str]] = {}
    for kind, place in named_types(partitions):
        if kind not in known:
            places.setdefault(kind, []).append(place)
    return [Problem(file=FILE, path=where[0], message=_message(kind, where, known)) for kind, where in places.items()]


def _message(kind: str, places: Sequence[str], known: Iterable[str]) -> str:
    if model_of(kind) is None:
        near = near_name(kind, known)
        instead = f"write {near}" if near else "correct the name"
    else:
        models = sorted(one for one in known if model_of(one) is not None)
        named = f" (nodes have {', '.join(models[:MOST_NAMED])})" if models else ""
        instead = f"correct the model{named}, or write {GPU} to count all models"
    more = f" (also in {len(places) - 1} other places)" if len(places) > 1 else ""
    return f"no node has {kind}, so this amount limits nothing{more}; {instead}, or remove it"


def named_types(partitions: Iterable[Partition]) -> Iterator[tuple[str, str]]:
    """Each type that a partition's queues and limits name, with its place."""
    for partition in partitions:
        yield from _of_limits(partition.limits, f"partition {partition.name}")
        for queue in walk_queues(partition.root):
            yield from _of_queue(queue)


def _of_queue(queue: Queue) -> Iterator[tuple[str, str]]:
    yield from _of_amounts(queue, f"{queue.path}.resources")
    if queue.child_template is not None:
        yield from _of_amounts(queue.child_template, f"{queue.path}.childtemplate.resources")
    yield from _of_limits(queue.limits, queue.path)


def _of_amounts(of: Queue | ChildTemplate, path: str) -> Iterator[tuple[str, str]]:
    for title, amounts in (("max", of.max), ("guaranteed", of.guaranteed)):
        yield from ((kind, f"{path}.{title}") for kind in amounts)


def _of_limits(limits: Iterable[Limit], path: str) -> Iterator[tuple[str, str]]:
    for limit in limits:
        yield from ((kind, f"{path}.limits.maxresources") for kind in limit.maxresources)
