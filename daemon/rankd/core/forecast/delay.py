"""Why a job started later than it was foreseen: what held room that the forecast had counted on, and its part.

A forecast assumes that no jobs come later, that limits hold, and that nodes stay. Whatever broke this held cores
between the latest start that was foreseen and the true one. The delay is divided in proportion to these cores and
times. It is an attribution, not a proof: what the job would have done without one of them is not computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

Kind = Literal["later jobs", "longer runs", "lost nodes", "order"]
KINDS: tuple[Kind, ...] = ("later jobs", "longer runs", "lost nodes")
SLACK_S = 1.0
"""A job that starts this much later is not late."""
MOST_NAMED = 5


class Taken(NamedTuple):
    """Cores that were not there, from ``since`` to ``until``, UTC seconds. ``what``: a job's id, or a node's name."""

    kind: Kind
    what: str
    since: float
    until: float
    cores: float


class DelayCause(msgspec.Struct, frozen=True, kw_only=True):
    """What delayed a job. ``count``: how many jobs or nodes; ``named``: the ones that held most, first.

    ``part`` of the delay, 0 to 1, and ``part_s``, in seconds. The kind ``order``: none of the others is known, so the
    order of the jobs has changed, or the room was divided in another way.
    """

    kind: Kind
    count: int
    named: list[str]
    part: float
    part_s: float


def delay_causes(late: float, started: float, taken: Iterable[Taken]) -> list[DelayCause]:
    """The causes of a start at ``started`` instead of at ``late``; the largest first."""
    delay_s = started - late
    weights: dict[Kind, dict[str, float]] = {kind: {} for kind in KINDS}
    for one in taken:
        overlap_s = min(one.until, started) - max(one.since, late)
        if overlap_s > 0 and one.cores > 0:
            own = weights[one.kind]
            own[one.what] = own.get(one.what, 0.0) + overlap_s * one.cores
    total = sum(sum(own.values()) for own in weights.values())
    if total <= 0:
        return [DelayCause(kind="order", count=0, named=[], part=1.0, part_s=delay_s)]
    causes = [_cause(kind, own, total, delay_s) for kind, own in weights.items() if own]
    return sorted(causes, key=lambda cause: -cause.part)


def _cause(kind: Kind, own: dict[str, float], total: float, delay_s: float) -> DelayCause:
    part = sum(own.values()) / total
    named = sorted(own, key=lambda what: (-own[what], what))[:MOST_NAMED]
    return DelayCause(kind=kind, count=len(own), named=named, part=part, part_s=part * delay_s)
