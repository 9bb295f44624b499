"""The values of a partition's queues that stay the same between cycles: the tree, and results that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rankd.core.ranking.columns import BoolArray, IntArray
from rankd.core.ranking.queue_view import QueueView


class QueueIndex:
    """Queues by their places in the list, which has parents before children.

    ``places``: by id. ``above`` int64 (n_queues,): the place of the parent, -1 for the root. ``levels``: the places
    below the root, level by level. ``is_plain`` bool (n_queues,): the path has neither limits nor ``maxapplications``,
    so a job's user, groups and application do not matter. ``has_tenants``: whether any queue has some, so that running
    jobs must be counted one by one.
    """

    def __init__(self, views: Sequence[QueueView]) -> None:
        self.views = views
        self.places = {view.id: place for place, view in enumerate(views)}
        above = [-1 if view.parent is None else self.places[view.parent] for view in views]
        self.above: IntArray = np.array(above, dtype=np.int64)
        self.levels = _levels(above)
        self.is_plain: BoolArray = np.ones(len(views), dtype=bool)
        self.has_tenants = False
        matters, droppable = [False] * len(views), [True] * len(views)
        for place, (view, at) in enumerate(zip(views, above, strict=True)):
            counts_each = bool(view.limits or view.maxapplications)
            self.has_tenants |= counts_each
            self.is_plain[place] = not counts_each and (at < 0 or self.is_plain[at])
            if at >= 0:
                matters[place] = view.properties.priority_policy != "fence" and (
                    views[at].properties.sort_priority or matters[at]
                )
                droppable[place] = droppable[at] and (views[at].properties.sort_priority or not matters[at])
        self.stay = frozenset(place for place, may_go in enumerate(droppable) if not may_go)
        """Queues that can't be left out of the walk, even if they have only blocked jobs.

        Their priority matters to other queues: it counts in the priority of a parent that does not sort its children
        by priority, and the parent's priority decides at a queue above.
        """

    def path(self, queue: int) -> Iterator[QueueView]:
        """The queues from the one with this id up to the root."""
        place = self.places[queue]
        while place >= 0:
            yield self.views[place]
            place = int(self.above[place])


def _levels(above: Sequence[int]) -> list[IntArray]:
    depths: list[int] = []
    levels: list[list[int]] = []
    for place, at in enumerate(above):
        depths.append(0 if at < 0 else depths[at] + 1)
        while len(levels) <= depths[-1]:
            levels.append([])
        levels[depths[-1]].append(place)
    return [np.array(level, dtype=np.int64) for level in levels[1:]]
