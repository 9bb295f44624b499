"""Whether the broker has to be started again because it stores nothing, although the disk has room."""

from __future__ import annotations

from pathlib import Path

from rankd.bus.connection import STORES_NOTHING
from rankd.services.up.space import LEAST_FREE_BYTES, free_bytes

PATIENCE_S = 5.0


class BrokerStorage:
    """What the services have reported about the broker since the last look."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_reported = False
        self._since: float | None = None

    def note(self, code: str | None) -> None:
        """Take the code of a service's health."""
        self._is_reported |= code == STORES_NOTHING

    def needs_restart(self, now: float) -> bool:
        """Whether each look since ``PATIENCE_S`` found a report, and there is room. ``now``: monotonic seconds."""
        since, self._since = self._since, None
        if not self._is_reported:
            return False
        self._is_reported = False
        self._since = since = now if since is None else since
        if now - since <= PATIENCE_S or free_bytes(self._directory) < LEAST_FREE_BYTES:
            return False
        self._since = None
        return True
