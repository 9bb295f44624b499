"""The jobs whose rank differs between two results, and by how much."""

from __future__ import annotations

import math

import msgspec

from rankd.core.evaluate.document import Id
from rankd.core.evaluate.result import JobRank, JobResult, Ranks, Result

_Ranked = JobResult | JobRank


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose rank differs. None means that it is not ranked or not in the result.

    A negative ``change`` means that it is ranked earlier.
    """

    job: Id
    rank_before: int | None
    rank_after: int | None
    change: int | None
    priority_before: int | None
    priority_after: int | None


def moves(before: Result | Ranks, after: Result | Ranks) -> list[Move]:
    """Jobs whose rank differs, sorted by their rank in ``after``. Jobs without a rank there are last."""
    old: dict[Id, _Ranked] = {job.id: job for job in before.jobs}
    new: dict[Id, _Ranked] = {job.id: job for job in after.jobs}
    found = [_move(id_, old.get(id_), new.get(id_)) for id_ in dict.fromkeys([*new, *old])]
    changed = [move for move in found if move.rank_before != move.rank_after]
    return sorted(changed, key=lambda move: math.inf if move.rank_after is None else move.rank_after)


def _move(id_: Id, old: _Ranked | None, new: _Ranked | None) -> Move:
    before, after = (None if job is None else job.rank for job in (old, new))
    return Move(
        job=id_,
        rank_before=before,
        rank_after=after,
        change=None if before is None or after is None else after - before,
        priority_before=None if old is None else old.priority,
        priority_after=None if new is None else new.priority,
    )
