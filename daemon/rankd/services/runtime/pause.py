"""A pause after a large batch: after many changes, a service waits up to 40 ms before it reads again.

A read costs nearly the same for one job as for hundreds. A service that reads after every commit of a flood of
submissions takes the processor from the services that commit them.
"""

from __future__ import annotations

import asyncio

FEW = 16
"""After a batch of at most this many changes there is no pause: a single submission is seen at once."""
SHARE = 10.0
"""The pause is this many times as long as the read."""
LONGEST_S = 0.04


def pause_s(found: int, took_s: float) -> float:
    """Seconds until the next read, after one that took ``took_s`` seconds and found this many changes.

    >>> pause_s(1, 0.005), pause_s(100, 0.003), pause_s(1_000, 0.05)
    (0.0, 0.03, 0.04)
    """
    return min(SHARE * took_s, LONGEST_S) if found > FEW else 0.0


async def pause(found: int, took_s: float) -> None:
    """Sleep for the seconds of :func:`pause_s`."""
    if seconds := pause_s(found, took_s):
        await asyncio.sleep(seconds)
