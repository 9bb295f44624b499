"""Rests between the parts of one user's work, so that the intake is free for others for half of the time.

The intake's threads share one interpreter. While all of them work for one user, each step of another user's request
waits for them several times. So a user whose requests wait rests after each of them, and after each part of a batch or
of a change of many jobs. The rest is as long as the work was. A user beside whom nobody else asks does not rest.
"""

from __future__ import annotations

import asyncio

from rankd.services.runtime.clock import Clock

LATELY_S = 2.0
MOST_S = 1.0
"""The longest rest."""
REMEMBERED = 2
"""The last two users are enough to tell whether anybody else asks."""


class Rests:
    """Remembers who asked last. ``clock`` returns UTC seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at: dict[str, float] = {}

    def note(self, user: str) -> None:
        """``user`` asks for something."""
        self._asked_at.pop(user, None)
        self._asked_at[user] = self._clock()
        if len(self._asked_at) > REMEMBERED:
            del self._asked_at[next(iter(self._asked_at))]

    def after(self, user: str, took_s: float) -> float:
        """How many seconds ``user`` rests after work of ``took_s`` seconds; 0 if nobody else asks."""
        now = self._clock()
        is_alone = not any(other != user and 0 <= now - at < LATELY_S for other, at in self._asked_at.items())
        return 0.0 if is_alone else min(took_s, MOST_S)

    async def rest(self, user: str, took_s: float) -> None:
        """Wait for that long; other tasks have a turn at any rate."""
        await asyncio.sleep(self.after(user, took_s))
