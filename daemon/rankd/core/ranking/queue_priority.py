"""The priority that every queue shows. It is kept between passes, and updated where the best job of a leaf has changed.

A leaf shows the highest priority of its eligible jobs; a parent shows the highest priority of its children. Each adds
its own offset, or shows the constant of its fence. A queue with nothing pending shows no priority. A change goes up
from its leaf and stops at the first queue whose priority stays the same. After a change of the tree, as by a reload,
all priorities are computed again.

Source: YuniKorn, "Priority Scheduling".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.core.ranking.queue_key import lifted_priority
from rankd.core.ranking.queue_view import QueueView

_Structure = tuple[tuple[int, int | None, str, int], ...]
"""For each queue: id, parent, policy, offset."""


class QueuePriorities:
    """The priorities of the queues of all trees, by id. Empty until the first :meth:`update`."""

    def __init__(self) -> None:
        self.recomputed = 0
        """The number of queues that the last update computed."""
        self._structure: _Structure = ()
        self._views: dict[int, QueueView] = {}
        self._best: dict[int, int] = {}
        self._shown: dict[int, int | None] = {}
        self._children: dict[int, list[int]] = {}

    def update(self, views: Sequence[QueueView], best: Mapping[int, int]) -> Mapping[int, int | None]:
        """The priority that each queue shows, by id; None if nothing is pending in it.

        Args:
            views: the queues of all trees, parents before children.
            best: the highest priority of each leaf with eligible jobs. It may contain removed queues.
        """
        structure = tuple(
            (view.id, view.parent, view.properties.priority_policy, view.properties.priority_offset) for view in views
        )
        own = {view.id: best[view.id] for view in views if view.id in best}
        self.recomputed = 0
        if structure != self._structure:
            self._rebuild(views, own)
            self._structure = structure
        else:
            changed = {*own.items()} ^ {*self._best.items()}
            self._best = own
            for leaf in {queue for queue, _ in changed}:
                self._climb(leaf)
        return self._shown

    def _rebuild(self, views: Sequence[QueueView], best: dict[int, int]) -> None:
        self._views = {view.id: view for view in views}
        self._best, self._shown = best, {}
        self._children = {view.id: [] for view in views}
        for view in views:
            if view.parent is not None:
                self._children[view.parent].append(view.id)
        for view in reversed(views):
            self._shown[view.id] = self._now(view.id)

    def _climb(self, queue: int) -> None:
        at: int | None = queue
        while at is not None:
            shown = self._now(at)
            if shown == self._shown[at]:
                return
            self._shown[at] = shown
            at = self._views[at].parent

    def _now(self, queue: int) -> int | None:
        """The priority of a queue, from its jobs or from its children."""
        self.recomputed += 1
        shown = [self._best[queue]] if queue in self._best else []
        shown += [value for child in self._children[queue] if (value := self._shown[child]) is not None]
        view = self._views[queue]
        best = max(shown, default=None)
        return best if view.parent is None else lifted_priority(best, view.properties)
