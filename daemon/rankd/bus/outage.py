"""The times when the broker cannot be reached: one log line when such a time begins, one a minute, one at its end."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("rankd.bus")

REMIND_EVERY_S = 60.0


class Outage:
    """Of the broker at ``url``. :attr:`since`: when it began (monotonic seconds), None while there is none."""

    def __init__(self, url: str) -> None:
        self.since: float | None = None
        self._url = url
        self._said_at = 0.0

    def note(self, error: Exception | None) -> None:
        """The connection was lost, or could not be made."""
        now, why = time.monotonic(), "" if error is None else f" ({type(error).__name__}: {error})"
        if self.since is None:
            self.since = self._said_at = now
            log.warning("no connection to the broker at %s%s; trying until there is one", self._url, why)
        elif now - self._said_at >= REMIND_EVERY_S:
            self._said_at = now
            log.warning("still no connection to the broker at %s after %.0f s%s", self._url, now - self.since, why)

    def over(self) -> None:
        """There is a connection."""
        if self.since is not None:
            log.warning("connected to the broker at %s again, after %.0f s", self._url, time.monotonic() - self.since)
        self.since = None

    def described(self) -> str | None:
        """What whoever needs the broker waits for; None while there is no outage."""
        if self.since is None:
            return None
        return f"there has been no connection to the broker at {self._url} for {time.monotonic() - self.since:.0f} s"
