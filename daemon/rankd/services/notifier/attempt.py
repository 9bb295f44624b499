"""One attempt to send a notification, whatever its target; and how an attempt fails."""

from __future__ import annotations

from rankd.core.errors import RankdError


class AttemptFailed(RankdError):
    """A receiver did not take a notification. It is sent again, unless it is ``final``."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__("notification_failed", message, "notify")
        self.final = final
