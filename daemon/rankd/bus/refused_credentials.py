"""Whether the broker goes on refusing a connection's credentials: one refusal may be that of a broker that starts."""

from __future__ import annotations

import asyncio

REFUSES = ("authorization violation", "authentication expired", "authentication revoked")
"""What the broker says then, in lower case."""
LEAST = 3
LEAST_S = 2.0
"""Credentials count as refused after this many refusals over this many seconds, with no connection in between."""


class Refusals:
    """The refusals since the last connection. ``lasting`` is set once they count."""

    def __init__(self) -> None:
        self.lasting = asyncio.Event()
        self._number = 0
        self._first_at = 0.0

    def note(self, now: float) -> None:
        """Note a refusal. ``now`` in monotonic seconds."""
        if not self._number:
            self._first_at = now
        self._number += 1
        if self._number >= LEAST and now - self._first_at >= LEAST_S:
            self.lasting.set()

    def over(self) -> None:
        """Note that there is a connection."""
        self._number = 0
        self.lasting.clear()
