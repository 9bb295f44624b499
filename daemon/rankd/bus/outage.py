"""Times when something cannot be reached: one log line when such a time begins, one a minute, one at its end."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("rankd.bus")

REMIND_EVERY_S = 60.0


class Spell:
    """A time in which something fails again and again. :attr:`since`: when it began (monotonic seconds), or None."""

    def __init__(self, logger: logging.Logger) -> None:
        self.since: float | None = None
        self._log = logger
        self._said_at = 0.0

    @property
    def lasts_s(self) -> float:
        """For how long."""
        return 0.0 if self.since is None else time.monotonic() - self.since

    def note(self, begins: str, lasts: str) -> None:
        """It failed. ``begins`` is logged the first time, ``lasts`` and the seconds so far once a minute after that."""
        now = time.monotonic()
        if self.since is None:
            self.since = self._said_at = now
            self._log.warning("%s", begins)
        elif now - self._said_at >= REMIND_EVERY_S:
            self._said_at = now
            self._log.warning("%s (for %.0f s)", lasts, self.lasts_s)

    def over(self, ends: str) -> None:
        """It works. ``ends`` is logged if it failed before."""
        if self.since is not None:
            self._log.warning("%s, after %.0f s", ends, self.lasts_s)
        self.since = None


class Outage(Spell):
    """The times without a connection to the broker at ``url``."""

    def __init__(self, url: str) -> None:
        super().__init__(log)
        self._url = url

    def lost(self, error: Exception | None) -> None:
        """The connection was lost, or could not be made."""
        why = "" if error is None else f" ({type(error).__name__}: {error})"
        broker = f"no connection to the broker at {self._url}{why}"
        self.note(f"{broker}; trying until there is one", f"still {broker}")

    def back(self) -> None:
        """There is a connection."""
        self.over(f"connected to the broker at {self._url} again")

    def described(self) -> str | None:
        """What whoever needs the broker waits for; None while there is no outage."""
        if self.since is None:
            return None
        return f"there has been no connection to the broker at {self._url} for {self.lasts_s:.0f} s"
