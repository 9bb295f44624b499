"""A priority as a bar of its parts, which adds up: class value, then each factor's points. Pure; lengths are pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WIDTH = 180.0
COLOURS = 8
"""Factors get the colours in the order in which they are summed, and again from the first."""


class Segment(NamedTuple):
    """One part. ``x`` and ``width``: where it is in the bar; ``css``: its colour's class."""

    name: str
    points: float
    x: float
    width: float
    css: str


class Bar(NamedTuple):
    """All parts; ``zero``: where 0 is. ``total``: the sum of all parts. ``words``: the parts as text."""

    segments: tuple[Segment, ...]
    zero: float
    total: float
    words: str


def parts(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The parts of a breakdown by name, in the order in which they are summed; none if they are hidden or unknown."""
    if row.get("class_value") is None or row.get("override") == "hidden":
        return []
    return [("class", float(row["class_value"]))] + [
        (factor["name"], float(factor["points"])) for factor in row["factors"] if factor["points"] is not None
    ]


def extent(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The lowest and the highest end of all bars, so that bars of one list can be compared by their lengths."""
    lowest, highest = 0.0, 0.0
    for row in rows:
        found = [points for _, points in parts(row)]
        lowest = min(lowest, sum(points for points in found if points < 0))
        highest = max(highest, sum(points for points in found if points > 0))
    return lowest, highest


def bar(row: Mapping[str, Any], between: tuple[float, float]) -> Bar | None:
    """The bar of a job; None if its parts are not known. Parts below 0 are left of 0."""
    found = parts(row)
    if not found:
        return None
    lowest, highest = between
    scale = WIDTH / ((highest - lowest) or 1.0)
    zero = -lowest * scale
    left, right, segments = zero, zero, list[Segment]()
    for place, (name, points) in enumerate(found):
        width = abs(points) * scale
        css = "c" if name == "class" else f"f{(place - 1) % COLOURS}"
        if points < 0:
            left -= width
        segments.append(Segment(name, points, round(left if points < 0 else right, 2), round(width, 2), css))
        if points >= 0:
            right += width
    total = sum(points for _, points in found)
    words = " + ".join(f"{name} {points:,.2f}" for name, points in found)
    return Bar(tuple(segments), round(zero, 2), total, f"{words} = {total:,.2f}")


def compared(own: Mapping[str, Any], above: Mapping[str, Any]) -> str | None:
    """What separates a job from the one above it: the parts in which they differ, largest first.

    None if the parts are hidden, or the two are equal in all of them.
    """
    mine, theirs = dict(parts(own)), dict(parts(above))
    if not mine or not theirs:
        return None
    gaps = {name: theirs.get(name, 0.0) - mine.get(name, 0.0) for name in mine | theirs}
    shown = sorted((name for name, gap in gaps.items() if abs(gap) >= 0.005), key=lambda name: -abs(gaps[name]))
    return ", ".join(f"{name} {gaps[name]:+,.2f}" for name in shown) or None
