"""How many notifications may be sent at once: in all, in a lane, and of a user. A slow receiver delays only its own.

Mails have one server, whose lane all users share. So they have a number of their own, and none per user: those of
another user would wait behind them.
"""

from __future__ import annotations

from collections import Counter

from rankd.core.notification.target import MAIL

AT_ONCE = 32
IN_LANE = 4
OF_USER = 8


class LaneLoad:
    """What is being sent, by lane and user."""

    def __init__(self) -> None:
        self._lanes = Counter[str]()
        self._users = Counter[str]()

    @property
    def total(self) -> int:
        """All together."""
        return self._lanes.total()

    def room_in(self, lane: str) -> int:
        """How many more notifications of this lane may be sent now.

        >>> LaneLoad().room_in("mailto")
        4
        """
        in_lane = IN_LANE - self._lanes[lane]
        return in_lane if lane == MAIL else max(0, min(AT_ONCE - self._users.total(), in_lane))

    def begin(self, lane: str, user: str) -> bool:
        """Note that one begins, if there is room for it."""
        if not self.room_in(lane) or (lane != MAIL and self._users[user] >= OF_USER):
            return False
        self._lanes[lane] += 1
        if lane != MAIL:
            self._users[user] += 1
        return True

    def end(self, lane: str, user: str) -> None:
        """Note that it has ended."""
        _less(self._lanes, lane)
        if lane != MAIL:
            _less(self._users, user)


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
