"""Rest under a flood: who has found much looks again a little later, and then takes more at a time.

A look has a price of its own, whether it finds one job or hundreds. Who looks at every commit of a flood takes the
processor from those whose commits they are.
"""

from __future__ import annotations

import asyncio

FEW = 16
"""Who has found no more rests not at all: a single submission is seen at once."""
SHARE = 10.0
"""The rest is so many times as long as the look."""
LONGEST_S = 0.04


def rest_s(found: int, took_s: float) -> float:
    """Seconds until the next look, after one that took so long and found so many changes.

    >>> rest_s(1, 0.005), rest_s(100, 0.003), rest_s(1_000, 0.05)
    (0.0, 0.03, 0.04)
    """
    return min(SHARE * took_s, LONGEST_S) if found > FEW else 0.0


async def rest(found: int, took_s: float) -> None:
    """For as long as :func:`rest_s` says."""
    if pause := rest_s(found, took_s):
        await asyncio.sleep(pause)
