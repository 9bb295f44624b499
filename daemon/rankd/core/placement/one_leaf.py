"""Which job is tried next, if all jobs of a partition wait in one leaf and in one order: no tree has to be walked.

The same as a :class:`.Traversal` of that leaf alone. What its queues use, and what is pending in them, then decides
nothing.
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.live_queue import LiveQueue
from rankd.core.placement.shortest_first import ShortestFirst, Turn
from rankd.core.ranking.columns import BoolArray


class OneLeaf:
    """:meth:`next` returns one job after another, as a traversal does. ``leaf``: it has one stream.

    ``always``: the kinds that are passed; bool (n_kinds,). ``limited``: the arrays of which no more tasks may start.
    """

    def __init__(self, leaf: LiveQueue, kinds: KindTable, limits: ArrayLimits) -> None:
        self.limited: list[Turn] = []
        self.always: BoolArray = np.zeros(len(kinds), dtype=bool)
        self._blocked = self.always
        """The kinds that are passed in the leaf, also because its first job of the kind is blocked."""
        self._queue = leaf.view.id
        self._stream = leaf.streams[0].copy()
        self._kinds = kinds
        self._limits = limits
        self._job = 0

    def next(self) -> Turn | None:
        """The next job whose kind is not blocked; None if there is no other."""
        stream, blocked = self._stream, self._blocked
        waiting = stream.waiting
        while not stream.is_done():
            kind = int(waiting.kinds[stream.at])
            if blocked[kind]:
                stream.skip(blocked)
                continue
            turn = Turn(self._queue, int(waiting.jobs[stream.at]), kind)
            if not self._limits.is_reached(turn.job):
                stream.step()
                self._job = turn.job
                return turn
            self.limited.append(turn)
            stream.pass_front()
        return None

    def has_any(self, kinds: BoolArray) -> bool:
        """Whether jobs of any of these kinds, bool (n_kinds,), were not tried."""
        return bool(kinds[self._stream.waiting.kinds[self._stream.at :]].any())

    def started(self, kind: int, given: Resources) -> None:  # noqa: ARG002 - the amounts change no order here
        """The last job was placed."""
        self._limits.start(self._job)

    def pass_rest(self) -> None:
        """Pass the other tasks, if the last job was a task of an array."""
        self._stream.pass_rest()

    def block(self, queue: int, kind: int) -> None:  # noqa: ARG002 - there is only this queue
        """Pass the other jobs of this kind."""
        if self._blocked is self.always:
            self._blocked = self.always.copy()
        self._blocked[kind] = True

    def pass_all(self, kinds: BoolArray) -> None:
        """Pass the other jobs of these kinds, bool (n_kinds,)."""
        is_same = self._blocked is self.always
        self.always = self.always | kinds
        self._blocked = self.always if is_same else self._blocked | kinds

    def rest_by_limit(self) -> ShortestFirst:
        """The jobs that were not tried, those with the shortest time limit first. It continues this walk."""
        rest = [(self._queue, self._stream, self._blocked)]
        return ShortestFirst(rest, self._kinds, self.always, self._limits, self.limited)
