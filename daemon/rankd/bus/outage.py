"""Periods of failure: one log line when such a period begins, one a minute, one at its end."""

from __future__ import annotations

import logging
import time

from rankd.core.errors import RankdError

log = logging.getLogger("rankd.bus")

REMIND_EVERY_S = 60.0


class Spell:
    """A period in which something fails repeatedly. :attr:`since`: its beginning (monotonic seconds), or None.

    :attr:`quiet_s`: how long the first period may last before it is logged.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.since: float | None = None
        self.quiet_s = 0.0
        self._log = logger
        self._said_at: float | None = None

    @property
    def lasts_s(self) -> float:
        """How long the period has lasted, in seconds; 0 if there is none."""
        return 0.0 if self.since is None else time.monotonic() - self.since

    def note(self, begins: str, lasts: str) -> None:
        """Note a failure. Logs ``begins`` the first time; later ``lasts`` and the seconds so far, once a minute."""
        now = time.monotonic()
        if self.since is None:
            self.since, self._said_at = now, None
        if self._said_at is None:
            if now - self.since >= self.quiet_s:
                self._said_at = now
                self._log.warning("%s", begins)
        elif now - self._said_at >= REMIND_EVERY_S:
            self._said_at = now
            self._log.warning("%s (for %.0f s)", lasts, self.lasts_s)

    def over(self, ends: str) -> None:
        """Note a success. Logs ``ends`` if the failure was logged."""
        if self.since is not None and self._said_at is not None:
            self._log.warning("%s, after %.0f s", ends, self.lasts_s)
        self.since, self.quiet_s = None, 0.0


class Outage(Spell):
    """The periods without a connection to the broker at ``url``."""

    def __init__(self, url: str) -> None:
        super().__init__(log)
        self._url = url

    def lost(self, error: Exception | None) -> None:
        """Note that the connection was lost, or could not be made."""
        name = "" if isinstance(error, RankdError) else f"{type(error).__name__}: "
        why = "" if error is None else f" ({name}{error})"
        broker = f"no connection to the broker at {self._url}{why}"
        self.note(f"{broker}; trying until it works", f"still {broker}")

    def back(self) -> None:
        """Note that there is a connection."""
        self.over(f"connected to the broker at {self._url} again")

    def described(self) -> str | None:
        """Describe the outage for a service that waits for the broker; None if there is no outage."""
        if self.since is None:
            return None
        return f"there has been no connection to the broker at {self._url} for {self.lasts_s:.0f} s"
