"""What a job asks nodes for. Jobs that ask for the same share one `Shape`, and one answer per cycle."""

from __future__ import annotations

import hashlib

import msgspec

from rankd.core.model.quantity import Resources, shown
from rankd.core.ranking.columns import NO_GROUP


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A gang: between ``min_nodes`` and ``nodes`` nodes of a partition, ``resources`` on each of them."""

    partition: str
    nodes: int = 1
    min_nodes: int = 1
    resources: Resources
    constraints: str | None = None
    exclusive: bool = False

    def key(self) -> int:
        """A 63-bit number, equal for equal shapes, the same in every process."""
        parts = (
            self.partition,
            self.nodes,
            self.min_nodes,
            sorted(self.resources.items()),
            self.constraints,
            self.exclusive,
        )
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1


def described(shape: Shape) -> str:
    """``vcore 4, memory 1073741824, gpu=a100, exclusive``."""
    parts = [f"{kind} {shown(kind, amount):g}" for kind, amount in sorted(shape.resources.items())]
    parts += [shape.constraints] if shape.constraints else []
    return ", ".join(parts + (["exclusive"] if shape.exclusive else [])) or "nothing in particular"


def described_request(shape: Shape) -> str:
    """``2 nodes with vcore 4``: the fewest nodes that are enough, and the amounts on each of them."""
    return f"{counted_nodes(shape.min_nodes)} with {described(shape)}"


def counted_nodes(number: int) -> str:
    """``1 node`` or ``2 nodes``."""
    return f"{number} node{'' if number == 1 else 's'}"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one leaf have in common for which one answer of a cycle serves them all.

    ``time_limit_s`` None: never ends. ``user`` and ``groups`` are needed where limits are set on the leaf's path,
    ``application`` (an index; -1: each job is one of its own) where ``maxapplications`` is. Others may leave them.
    """

    shape: Shape
    time_limit_s: float | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    application: int = NO_GROUP
