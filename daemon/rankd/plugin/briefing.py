"""What a worker has already been sent, so that only new data is sent."""

from __future__ import annotations

from collections.abc import Sequence

from rankd.core.model.quantity import Resources
from rankd.core.ranking.factor import FactorContext, Groups
from rankd.core.ranking.name import Names
from rankd.plugin.message import Ask, GroupArrays, sendable


class Briefing:
    """What one worker has been sent since its start."""

    def __init__(self) -> None:
        self._groups: Groups | None = None
        self._names = Names()
        self._first: Resources | None = None
        self._last: Resources | None = None
        self._n_shapes = 0

    def ask(self, number: int, context: FactorContext, time_limit_s: float) -> Ask:
        """The message that goes with the columns of this context."""
        groups = context.groups
        is_same = self._groups is groups
        is_named = groups.names is self._names or groups.names == self._names
        kept, shapes = self._new_shapes(groups.shapes)
        self._groups, self._names = groups, groups.names
        return Ask(
            number=number,
            now=context.now,
            n_jobs=len(context.jobs),
            time_limit_s=time_limit_s,
            groups=None if is_same else GroupArrays.of(groups),
            names=None if is_named else groups.names,
            shapes=sendable(shapes),
            shapes_kept=kept,
        )

    def _new_shapes(self, shapes: Sequence[Resources]) -> tuple[int, Sequence[Resources]]:
        """How many shapes stay, and which are added. A service's list only grows; an older list is a part of it."""
        known, size = self._n_shapes, len(shapes)
        if 0 < known <= size and shapes[0] is self._first and shapes[known - 1] is self._last:
            added = shapes[known:size]
        elif 0 < size < known and shapes[0] is self._first:
            return known, ()
        else:
            known, added = 0, shapes[:size]
        self._n_shapes = known + len(added)
        self._first, self._last = (shapes[0], shapes[size - 1]) if size else (None, None)
        return known, added
