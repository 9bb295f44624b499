"""One queue before and during a cycle: its key, its remaining jobs, and its used and pending amounts."""

from __future__ import annotations

from rankd.core.model.quantity import Resources
from rankd.core.placement.job_stream import JobStream, StreamKey
from rankd.core.ranking.columns import BoolArray
from rankd.core.ranking.queue_view import QueueView

QueueKey = tuple[float, float, float, str]


class LiveQueue:
    """A queue's state. The entries of its heaps are (key, place of a child or stream); some may be outdated.

    ``best``: the highest priority that its remaining jobs show inside it. ``lifted``: the priority that its parent
    sees. ``blocked``: the kinds passed in this queue, bool (n_kinds,); None means only the kinds that are passed
    everywhere.
    """

    __slots__ = (
        "above",
        "best",
        "blocked",
        "by_priority",
        "denominators",
        "heap",
        "key",
        "lifted",
        "lifted_heap",
        "pending",
        "place",
        "share",
        "stream_heap",
        "streams",
        "used",
        "view",
        "weight",
    )  # fmt: skip

    def __init__(self, view: QueueView, above: LiveQueue | None, place: int) -> None:
        self.view = view
        self.above = above
        self.place = place
        self.by_priority = view.properties.sort_priority
        self.used: Resources = {}
        self.pending: Resources = {}
        self.denominators = list((view.effective_max | view.guaranteed).items())
        self.share = 0.0
        self.weight = 0.0
        self.best: int | None = None
        self.lifted: int | None = None
        self.key: QueueKey | None = None
        self.heap: list[tuple[QueueKey, int]] = []
        self.lifted_heap: list[tuple[int, int]] = []
        self.streams: list[JobStream] = []
        self.stream_heap: list[tuple[StreamKey, int]] = []
        self.blocked: BoolArray | None = None

    def copy(self, above: LiveQueue | None) -> LiveQueue:
        """An independent copy below the given parent."""
        other = LiveQueue.__new__(LiveQueue)
        other.view, other.above, other.place, other.by_priority = self.view, above, self.place, self.by_priority
        other.used, other.pending = self.used.copy(), self.pending.copy()
        other.denominators, other.share, other.weight = self.denominators, self.share, self.weight
        other.best, other.lifted, other.key = self.best, self.lifted, self.key
        other.heap, other.lifted_heap = self.heap.copy(), self.lifted_heap.copy()
        other.streams = [stream.copy() for stream in self.streams]
        other.stream_heap, other.blocked = self.stream_heap.copy(), None
        return other

    def weigh(self, totals: list[tuple[str, int]]) -> None:
        """Update ``share`` and ``weight``.

        The results are the same as those of :mod:`rankd.core.ranking.queue_key`, bit for bit. ``totals``: the
        partition's total of each type. The resource types are looked up before, to save time.
        """
        share, used, pending = 0.0, self.used, self.pending
        for kind, denominator in self.denominators:
            amount = used.get(kind, 0)
            if amount > 0:
                share = max(share, amount / denominator if denominator > 0 else 1.0)
        self.share = share
        self.weight = sum([pending.get(kind, 0) / total for kind, total in totals])
