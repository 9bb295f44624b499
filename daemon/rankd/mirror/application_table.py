"""The named applications that a service remembers: read once, later extended by new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.order import Applications
from rankd.store.feed.application import ApplicationRow


class ApplicationTable:
    """Applications by id. ``revision``: the last known event; -1 before the first."""

    def __init__(self) -> None:
        self.revision = -1
        self._rows: dict[int, ApplicationRow] = {}
        self._known = Applications(created_at=np.zeros(0), id_places=np.zeros(0, dtype=np.int64))

    @property
    def read_after(self) -> int:
        """The event after which applications are read. Two that begin in different transactions may have one revision.

        An application that begins again has the number of the next event. So has the first one of the transaction that
        follows, and it must not be missed.
        """
        return self.revision - 1

    def update(self, begun: Sequence[ApplicationRow]) -> None:
        """Add applications that have begun, or begun again. Those that are known already change nothing."""
        if new := {row.id: row for row in begun if self._rows.get(row.id) != row}:
            self._rows |= new
            self.revision = max(self.revision, *(row.revision for row in new.values()))
            self._known = self._built()

    def with_use(self, used: Mapping[int, Resources], states: Mapping[int, str]) -> Applications:
        """All applications, with their present usage and their states, both by id."""
        return msgspec.structs.replace(self._known, used=used, states=states)

    def _built(self) -> Applications:
        size = max(self._rows) + 1
        created, places = np.zeros(size), np.zeros(size, dtype=np.int64)
        queues = np.full(size, -1, dtype=np.int64)
        for place, row in enumerate(sorted(self._rows.values(), key=lambda row: (row.name, row.id))):
            queues[row.id], created[row.id], places[row.id] = row.queue, row.created_at, place
        return Applications(created_at=created, id_places=places, queues=queues)
