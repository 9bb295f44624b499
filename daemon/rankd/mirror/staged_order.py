"""A full generation that is loaded leaf by leaf while it is still being written, so that no cycle has to wait for it.

The order, the waiting jobs and the cycles' memories are a second set, which replaces the first when the generation
becomes visible. The prioritizer writes the leaves first, and then rows that name the pass. So leaves that a killed
prioritizer left behind are never taken for those of another pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.problem import WaitingJobs
from rankd.mirror.leaf_orders import LeafOrders
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.store.feed.order import MAX_ID, NewestGeneration, RankedLeaf, StagedGeneration

JOBS_PER_STEP = 40_000
LEAVES_PER_STEP = 100
"""One step loads about 40,000 jobs, or 100 small leaves, or one leaf: a trigger may wait some milliseconds for it."""


class QueueRange(NamedTuple):
    """The ids of queues from ``first`` to ``last``."""

    first: int
    last: int


class StagedOrder:
    """One staged generation at a time; ``order``, ``waiting`` and ``memories`` (by root queue) belong to it."""

    def __init__(self) -> None:
        self.order = LeafOrders()
        self.waiting: WaitingLeaves | None = None
        self.memories: dict[int, CycleMemory] = {}
        self._staged: StagedGeneration | None = None
        self._left: list[QueueRange] | None = None
        """The ranges that are not loaded yet; None before :meth:`begin`."""
        self._loaded: list[int] = []

    def follow(self, staged: StagedGeneration | None) -> None:
        """Use this generation from now on, if it differs from the one before. None: no generation is staged."""
        if staged != self._staged:
            self.order = LeafOrders.of_staged(staged.number, staged.revision) if staged else LeafOrders()
            self._staged, self._left = staged, None
            self.waiting, self.memories, self._loaded = None, {}, []

    @property
    def number(self) -> int:
        """The staged generation; 0 if there is none."""
        return 0 if self._staged is None else self._staged.number

    @property
    def has_more(self) -> bool:
        """Whether leaves are still to be loaded."""
        return self._staged is not None and self._left != []

    @property
    def has_any(self) -> bool:
        """Whether at least one leaf is loaded."""
        return bool(self._loaded)

    def begin(self, in_use: WaitingLeaves) -> bool:
        """Plan the steps, if not done yet, and start with the leaves ``in_use``; returns whether it did so."""
        if self._left is not None:
            return False
        self._left, self.waiting = _ranges(in_use.sizes()), in_use.successor(self.order)
        return True

    def next_range(self) -> QueueRange:
        """The leaves that the next step has to load and pass to :meth:`add`."""
        assert self._left  # noqa: S101 - the caller has asked has_more and begin
        return self._left.pop()

    def add(self, leaves: Mapping[int, RankedLeaf]) -> None:
        """Add the leaves of :meth:`next_range`."""
        self.order.add(leaves)
        self._loaded += leaves
        if not self._left and self.waiting is not None:
            self.order.mark_empty(self.waiting.leaves() - self.order.queues())

    def of_loaded(self, waiting: Mapping[int, WaitingJobs]) -> Mapping[int, WaitingJobs]:
        """The waiting jobs of the loaded leaves, by leaf."""
        return {queue: waiting[queue] for queue in self._loaded if queue in waiting} if self._left else waiting

    def is_base_of(self, newest: NewestGeneration) -> bool:
        """Whether the newest generation is based on the staged one."""
        staged = self._staged
        return staged is not None and (staged.number, staged.ranked_at) == (newest.base, newest.ranked_at)


def _ranges(sizes: Mapping[int, int]) -> list[QueueRange]:
    """All ids of queues in ranges with about as many jobs; ``sizes``: the present number of jobs of each leaf."""
    queues = sorted(sizes)
    costs = np.cumsum([sizes[queue] / JOBS_PER_STEP + 1 / LEAVES_PER_STEP for queue in queues])
    firsts = np.flatnonzero(np.diff(costs.astype(np.int64), prepend=0))
    bounds = [0, *(queues[first] for first in firsts.tolist()), MAX_ID]
    return [QueueRange(first, after - 1) for first, after in pairwise(bounds) if first < after]
