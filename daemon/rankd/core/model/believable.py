"""Bounds for the values that nodes report about their jobs. Impossible values are clamped to a bound, or left out."""

from __future__ import annotations

import math

LARGEST_RSS_BYTES = 2**50
MOST_CORES = 65_536
LONGEST_TEXT = 4_096
LARGEST_STATUS = 255
LARGEST_SIGNAL = 64


def believable_time(at: float, earliest: float, now: float) -> float:
    """The reported time, clamped to between the allocation and now. Clocks differ, and a node may lie.

    >>> believable_time(1e11, 100.0, 200.0), believable_time(5.0, 100.0, 200.0), believable_time(150.0, 100.0, 200.0)
    (200.0, 100.0, 150.0)
    """
    return min(max(at, earliest), max(now, earliest)) if math.isfinite(at) else max(now, earliest)


def believable_rss(n_bytes: int | None) -> int | None:
    """The largest memory that a job used, in bytes; None if no machine has that much.

    >>> believable_rss(2**20), believable_rss(-1), believable_rss(2**62)
    (1048576, None, None)
    """
    return n_bytes if n_bytes is not None and 0 <= n_bytes <= LARGEST_RSS_BYTES else None


def believable_cpu_s(cpu_s: float | None, elapsed_s: float) -> float | None:
    """Processor seconds; None if no machine has enough cores to use them in ``elapsed_s`` seconds.

    >>> believable_cpu_s(3.5, 2.0), believable_cpu_s(-1.0, 2.0), believable_cpu_s(1e11, 2.0)
    (3.5, None, None)
    """
    is_possible = cpu_s is not None and 0 <= cpu_s <= (elapsed_s + 1) * MOST_CORES
    return cpu_s if is_possible else None


def believable_number(number: int | None, largest: int) -> int | None:
    """An exit status or a signal; an impossible number is replaced by the largest one.

    >>> believable_number(3, 255), believable_number(10**12, 255), believable_number(-1, 255)
    (3, 255, 255)
    """
    return number if number is None or 0 <= number <= largest else largest


def believable_text(text: str | None) -> str | None:
    """A path or a message, cut to :data:`LONGEST_TEXT` characters."""
    return text if text is None else text[:LONGEST_TEXT]
