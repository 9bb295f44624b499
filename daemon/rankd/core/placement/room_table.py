"""The room that the maxima of queues leave on each leaf's path, as matrices. They show which leaves ask for more.

This is known only for leaves without limits and ``maxapplications`` on their paths.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankd.core.model.quantity import LARGEST, Resources
from rankd.core.placement.partition_state import PartitionState
from rankd.core.ranking.columns import IntArray


class RoomTable:
    """Matrices whose rows are queues and whose columns are the types of the partition's kinds. Kept between cycles."""

    def __init__(self) -> None:
        self._rooms = np.empty((0, 0), dtype=np.int64)
        self._most = np.empty((0, 0), dtype=np.int64)
        self._exclusive = np.empty(0, dtype=bool)
        self._types: list[str] = []
        self._changed: set[int] | None = None
        """The places of the queues that have changed since the last :meth:`update`; None means all."""

    def follow(self, partition: PartitionState) -> None:
        """Note which queues the last update of the partition has changed."""
        changed = partition.changed
        self._changed = None if changed is None or self._changed is None else self._changed | changed

    def update(self, partition: PartitionState) -> None:
        """Update the matrices for the queues that have changed."""
        shape = (len(partition.index.views), partition.kinds.n_types)
        changed, self._changed = self._changed, set()
        if changed is None or self._rooms.shape != shape:
            self._types = partition.kinds.types
            self._rooms, self._most = np.full(shape, LARGEST), np.zeros(shape, dtype=np.int64)
            self._exclusive = np.zeros(shape[0], dtype=bool)
            changed = set(range(shape[0]))
        if not partition.kinds.is_exact:
            return
        for place in changed:
            live = partition.live(place)
            if live.view.maximum:
                used = live.used
                self._put(self._rooms, place, {k: most - used.get(k, 0) for k, most in live.view.maximum.items()})
            content = partition.contents.get(place)
            self._most[place] = 0 if content is None else content.most
            self._exclusive[place] = content is not None and content.has_exclusive

    def _put(self, rooms: IntArray, place: int, room: Mapping[str, int]) -> None:
        for column, kind in enumerate(self._types):
            if kind in room:
                rooms[place, column] = max(min(room[kind], LARGEST), 0)

    def suspects(self, partition: PartitionState, charged: Mapping[int, Resources]) -> list[int]:
        """The places of leaves that may have kinds without room. ``charged``: the present room of queues, by place.

        These are: leaves that ask for more of a type than there is room on their path; leaves with exclusive kinds,
        which take whole nodes; and leaves with limits or ``maxapplications`` on their path.
        """
        if not partition.kinds.is_exact:
            return list(partition.contents)
        rooms = self._rooms.copy()
        for place, room in charged.items():
            self._put(rooms, place, room)
        for level in partition.index.levels:
            rooms[level] = np.minimum(rooms[level], rooms[partition.index.above[level]])
        found = (self._most > rooms).any(axis=1) | self._exclusive | ~partition.index.is_plain
        return [place for place in np.flatnonzero(found).tolist() if place in partition.contents]
