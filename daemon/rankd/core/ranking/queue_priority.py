"""What every queue shows, kept from pass to pass and recomputed only where a leaf's best job has changed.

A leaf shows its best eligible job's priority, a parent the most that one of its children shows, each with its own
offset added or behind its fence; a queue with nothing pending shows nothing. A change goes up from its leaf and ends
at the first queue that shows what it showed before. Another tree, as after a reload, is computed as a whole.

Source: YuniKorn, "Priority Scheduling".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.core.ranking.queue_key import lifted_priority
from rankd.core.ranking.queue_view import QueueView

_Structure = tuple[tuple[int, int | None, str, int], ...]
"""Of each queue: id, parent, policy, offset."""


class QueuePriorities:
    """The priorities of all trees' queues by id; empty until the first :meth:`update`."""

    def __init__(self) -> None:
        self.recomputed = 0
        """How many queues the last update looked at."""
        self._structure: _Structure = ()
        self._views: dict[int, QueueView] = {}
        self._best: dict[int, int] = {}
        self._shown: dict[int, int | None] = {}
        self._children: dict[int, list[int]] = {}

    def update(self, views: Sequence[QueueView], best: Mapping[int, int]) -> Mapping[int, int | None]:
        """What each queue shows, None with nothing pending.

        Args:
            views: of all trees, parents before children.
            best: the highest priority of each leaf with eligible jobs; queues that are no more may be in it.
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
        """From what is below it."""
        self.recomputed += 1
        shown = [self._best[queue]] if queue in self._best else []
        shown += [value for child in self._children[queue] if (value := self._shown[child]) is not None]
        view = self._views[queue]
        best = max(shown, default=None)
        return best if view.parent is None else lifted_priority(best, view.properties)
