"""When a user who runs nothing is back at par: at the share of the account's use that belongs to the user. Pure.

All use decays alike, so if nobody runs anything, nothing changes between users. The curve assumes that the others use
as much as decays: their use stays as it is, and the own use halves in each half-life.
"""

from __future__ import annotations

import math
from typing import NamedTuple

WIDTH, HEIGHT = 600.0, 160.0
POINTS = 60


class Outlook(NamedTuple):
    """``now``: the own part of the use. ``share``: what belongs to the user. ``seconds``: until par; None: never.

    ``path``: the curve as SVG. ``mark``: where par is on it; None: it is not drawn. ``begin``, ``level``: heights
    of the own part now and of the share. ``spans``: seconds of the axis.
    """

    now: float
    share: float
    seconds: float | None
    path: str
    mark: float | None
    begin: float
    level: float
    spans: float


def seconds_to_par(own: float, others: float, share: float, half_life_s: float | None) -> float | None:
    """Seconds until own / (own + others) is the share; 0 if it is below; None if that never happens.

    >>> seconds_to_par(300.0, 100.0, 0.5, 10.0), seconds_to_par(100.0, 100.0, 0.5, 10.0)
    (15.849625007211561, 0.0)
    """
    if own <= 0 or (own + others > 0 and own / (own + others) <= share):
        return 0.0
    wanted = share * others / (1 - share) if share < 1 else math.inf
    if half_life_s is None or wanted <= 0:
        return None
    return half_life_s * math.log2(own / wanted)


def outlook(own: float, others: float, share: float, half_life_s: float | None) -> Outlook:
    """The decay curve ahead."""
    seconds = seconds_to_par(own, others, share, half_life_s)
    part = own / (own + others) if own + others > 0 else 0.0
    spans = max(4 * (half_life_s or 604_800.0), 1.25 * (seconds or 0.0))
    top = max(part, share, 0.01) * 1.1

    def at(second: float) -> float:
        left = own if half_life_s is None else own * 2 ** (-second / half_life_s)
        return left / (left + others) if left + others > 0 else 0.0

    steps = [spans * step / POINTS for step in range(POINTS + 1)]
    path = " ".join(
        f"{'L' if place else 'M'}{WIDTH * place / POINTS:.1f},{HEIGHT * (1 - at(second) / top):.1f}"
        for place, second in enumerate(steps)
    )
    mark = None if not seconds else WIDTH * seconds / spans
    return Outlook(part, share, seconds, path, mark, HEIGHT * (1 - part / top), HEIGHT * (1 - share / top), spans)
