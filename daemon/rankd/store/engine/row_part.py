"""Rows in as few parts as possible, of a few sizes, so that a statement for each size stays prepared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

FEW = 8
"""Up to this many new rows go to a server by ``INSERT``, which takes fewer messages than ``COPY``."""


def row_parts(rows: Sequence[Sequence[object]], sizes: Sequence[int]) -> Iterator[Sequence[Sequence[object]]]:
    """The parts in their order. ``sizes``: numbers of rows, the largest first, and 1 the last.

    >>> [len(part) for part in row_parts([[n] for n in range(21)], (8, 4, 1))]
    [8, 8, 4, 1]
    """
    first = 0
    for size in sizes:
        while len(rows) - first >= size:
            yield rows[first : first + size]
            first += size
