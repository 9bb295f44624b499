"""The amounts that a job asks nodes for. Jobs with the same request share one `Shape`, and one result per cycle."""

from __future__ import annotations

import hashlib

import msgspec

from rankd.core.model.amount_text import shown_amount
from rankd.core.model.device import without_sum
from rankd.core.model.quantity import Resources
from rankd.core.placement.constraint import shown_constraints
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
        """A 63-bit number that is equal for equal shapes, in all processes."""
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
    """The shape as text, such as ``vcore 4, memory 1G, gpu=a100, exclusive``."""
    parts = [f"{kind} {shown_amount(kind, amount)}" for kind, amount in sorted(without_sum(shape.resources).items())]
    parts += [shown_constraints(shape.constraints)] if shape.constraints else []
    return ", ".join(parts + (["exclusive"] if shape.exclusive else [])) or "nothing in particular"


def described_request(shape: Shape) -> str:
    """``2 nodes with vcore 4``: the fewest nodes that are enough, and the amounts on each of them."""
    return f"{counted_nodes(shape.min_nodes)} with {described(shape)}"


def counted_nodes(number: int) -> str:
    """``1 node`` or ``2 nodes``."""
    return f"{number} node{'' if number == 1 else 's'}"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The common values of jobs in one leaf for which a cycle has the same result.

    ``time_limit_s`` None means that the job has no limit. ``user`` and ``groups`` are needed only if the leaf's path
    has limits. ``application`` (an index; -1: each job is its own) is needed only if the path has ``maxapplications``.
    """

    shape: Shape
    time_limit_s: float | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    application: int = NO_GROUP
