"""Durations as people say them. Pure."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def lapse(seconds: float | None) -> str:
    """The two largest units of a duration; ``no limit`` for None.

    >>> [lapse(s) for s in (0.4, 59, 61, 3600, 93784, None)]
    ['0 s', '59 s', '1 min 1 s', '1 h', '1 d 2 h', 'no limit']
    """
    if seconds is None:
        return "no limit"
    left = max(0, int(seconds))
    for place, (unit, size) in enumerate(_UNITS):
        amount, rest = divmod(left, size)
        if amount:
            less = rest // _UNITS[place + 1][1] if place + 1 < len(_UNITS) else 0
            return f"{amount} {unit}" + (f" {less} {_UNITS[place + 1][0]}" if less else "")
    return "0 s"
