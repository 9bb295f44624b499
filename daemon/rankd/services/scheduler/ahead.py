"""Takes a full generation in while it is staged, leaf by leaf, so that no cycle waits for it once it is visible.

The order, the jobs that wait and the cycles' memories are a second set beside those in use; they take the others'
place when the generation becomes visible. The prioritizer stages the leaves first, and behind them rows that say of
which pass they are: leaves that a prioritizer left behind when it was killed are never taken for another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.problem import WaitingJobs
from rankd.mirror.leaf_orders import MAX_ID, LeafOrders, Newest, read_leaves
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.store.engine.connection import Connection
from rankd.store.record.generation import STAGED_AT, STAGED_REVISION

JOBS = 40_000
LEAVES = 100
"""A step takes so many jobs, or leaves with a few, or one leaf: some milliseconds for which a trigger may wait."""

_STAGED = f"""
SELECT at.generation, at.value, cast(revision.value AS INTEGER)
FROM generation_numbers at JOIN generation_numbers revision
ON revision.generation = at.generation AND revision.name = '{STAGED_REVISION}'
WHERE at.generation > ? AND at.name = '{STAGED_AT}' ORDER BY at.generation DESC LIMIT 1"""


class _Staged(NamedTuple):
    """A full generation that is not visible yet: its number, its instant, the last event that it knows."""

    number: int
    ranked_at: float
    revision: int


class Ahead:
    """One staged generation at a time; ``order``, ``waiting`` and ``memories`` (by root queue) are as of it."""

    def __init__(self) -> None:
        self.order = LeafOrders()
        self.waiting: WaitingLeaves | None = None
        self.memories: dict[int, CycleMemory] = {}
        self._staged: _Staged | None = None
        self._parts: list[tuple[int, int]] | None = None
        self._read: list[int] = []

    def look(self, connection: Connection, visible: int) -> None:
        """Begin with a generation that was staged behind the visible full one; forget one that is staged no more."""
        row = connection.exec_driver_sql(_STAGED, (visible,)).first()
        staged = None if row is None else _Staged(*row)
        if staged != self._staged:
            self.order = LeafOrders.begun(staged.number, staged.revision) if staged else LeafOrders()
            self._staged, self._parts = staged, None
            self.waiting, self.memories, self._read = None, {}, []

    @property
    def has_more(self) -> bool:
        """Whether there are leaves to be read."""
        return self._staged is not None and self._parts != []

    @property
    def has_any(self) -> bool:
        """Whether any have been."""
        return bool(self._read)

    def read(self, connection: Connection, in_use: WaitingLeaves) -> None:
        """The next leaves; at first which there are. What is the same as ``in_use`` is taken from there."""
        assert self._staged is not None  # noqa: S101 - else there is nothing to be read
        if self._parts is None or self.waiting is None:
            self._parts, self.waiting = _parts(in_use.sizes()), in_use.successor(self.order)
        else:
            leaves = read_leaves(connection, self._staged.number, *self._parts.pop())
            self.order.add(leaves)
            self._read += leaves
        if not self._parts:
            self.order.drop(self.waiting.leaves() - self.order.queues())

    def so_far(self, waiting: Mapping[int, WaitingJobs]) -> Mapping[int, WaitingJobs]:
        """Of the jobs that wait by leaf, those of leaves that have been read."""
        return {queue: waiting[queue] for queue in self._read if queue in waiting} if self._parts else waiting

    def is_of(self, newest: Newest) -> bool:
        """Whether the newest generation stands on the staged one."""
        staged = self._staged
        return staged is not None and (staged.number, staged.ranked_at) == (newest.base, newest.ranked_at)


def _parts(sizes: Mapping[int, int]) -> list[tuple[int, int]]:
    """Ranges of ids of queues, all there are, of about as many jobs, by how many leaves have now."""
    queues = sorted(sizes)
    costs = np.cumsum([sizes[queue] / JOBS + 1 / LEAVES for queue in queues])
    firsts = np.flatnonzero(np.diff(costs.astype(np.int64), prepend=0))
    bounds = [0, *(queues[first] for first in firsts.tolist()), MAX_ID]
    return [(first, after - 1) for first, after in pairwise(bounds) if first < after]
