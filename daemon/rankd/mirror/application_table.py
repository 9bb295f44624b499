"""The named applications as the prioritizer keeps them: read once, later only those that began, or began again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.order import Applications
from rankd.store.engine.connection import Connection

_NEW = "SELECT id, queue_id, name, created_at, revision FROM applications WHERE revision > ?"

_STATES = """
SELECT a.id, a.state FROM json_each(?) w JOIN applications a ON a.queue_id = w.value
WHERE a.state NOT IN ('running', 'completed', 'failed')"""


class ApplicationTable:
    """Applications by id."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, str, float]] = {}
        self._revision = -1
        self._known = Applications(created_at=np.zeros(0), id_places=np.zeros(0, dtype=np.int64))

    def read(self, connection: Connection, used: Mapping[int, Resources], filtering: Sequence[int]) -> Applications:
        """All of them, with what they use now, and with the states of those in the leaves ``filtering``."""
        new = connection.exec_driver_sql(_NEW, (self._revision,)).all()
        if new:
            self._rows |= {id_: (queue, name, at) for id_, queue, name, at, _ in new}
            self._revision = max(row[4] for row in new)
            self._known = self._built()
        states = connection.exec_driver_sql(_STATES, (json.dumps(filtering),)).all() if filtering else []
        return msgspec.structs.replace(self._known, used=used, states={row[0]: row[1] for row in states})

    def _built(self) -> Applications:
        size = max(self._rows) + 1
        created, places = np.zeros(size), np.zeros(size, dtype=np.int64)
        queues = np.full(size, -1, dtype=np.int64)
        by_name = sorted((name, id_) for id_, (_, name, _) in self._rows.items())
        for place, (_, id_) in enumerate(by_name):
            queues[id_], _, created[id_] = self._rows[id_]
            places[id_] = place
        return Applications(created_at=created, id_places=places, queues=queues)
