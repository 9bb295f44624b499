"""The order of a full generation as rows: by rank, by job id, by leaf.

Numbers that SQL reads have equal widths. So SQL can cut one out without reading the others, and numpy can write them.
Rows that only the scheduler reads are stored in numpy's own format.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np

from rankd.core.ranking.base_order import BaseOrder
from rankd.core.ranking.columns import IntArray
from rankd.store.schema.rank_view import CHUNK, PRIORITY_WIDTH, RANK_WIDTH

LEAF_CHUNK = 2**15
_ZERO, _MINUS = ord("0"), ord("-")

TableRow = tuple[str, tuple[object, ...]]
"""A table's name and one row of it."""


def order_rows(generation: int, base: BaseOrder, priorities: IntArray) -> Iterator[TableRow]:
    """The rows that views read; ``priorities``: int64 (n_ranked,), by rank."""
    yield from _by_rank(generation, base.ids, priorities)
    yield from _by_id(generation, base)


def _by_rank(generation: int, ids: IntArray, priorities: IntArray) -> Iterator[TableRow]:
    for chunk, at in enumerate(range(0, len(ids), CHUNK)):
        texts = json_list(ids[at : at + CHUNK]), fixed_width(priorities[at : at + CHUNK], PRIORITY_WIDTH)
        yield "ranking_chunks", (generation, chunk, at + 1, *texts)


def _by_id(generation: int, base: BaseOrder) -> Iterator[TableRow]:
    ids, ranks = base.jobs.ids, base.ranks
    starts = np.flatnonzero(np.diff(ids // CHUNK, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(ids)]):
        first, last = int(ids[start]), int(ids[end - 1])
        own = np.zeros(last - first + 1, dtype=np.int64)
        own[ids[start:end] - first] = ranks[start:end]
        yield "rank_chunks", (generation, first // CHUNK, first, fixed_width(own, RANK_WIDTH))


def leaf_rows(generation: int, base: BaseOrder, priorities: IntArray) -> Iterator[TableRow]:
    """The rows that the scheduler reads: the same order, by leaf."""
    ranks, bounds = base.by_leaf
    for leaf, (start, end) in enumerate(pairwise(bounds.tolist())):
        for chunk, at in enumerate(range(start, end, LEAF_CHUNK)):
            own = ranks[at : min(at + LEAF_CHUNK, end)]
            arrays = base.ids[own], priorities[own].astype("<i4"), (own + 1).astype("<i4")
            yield (
                "ranking_leaves",
                (generation, base.pre_order.leaves[leaf], chunk, *(array.tobytes() for array in arrays)),
            )


def json_list(values: IntArray) -> str:
    """The numbers as a JSON list."""
    return msgspec.json.encode(values.tolist()).decode()


def fixed_width(values: IntArray, width: int) -> bytes:
    """Decimal numbers of ``width`` characters each, with leading zeros; a minus sign comes first.

    >>> fixed_width(np.array([7, -30]), 4)
    b'0007-030'
    """
    left = np.abs(values).astype(np.uint32)
    text = np.empty((len(values), width), dtype=np.uint8)
    for place in range(width - 1, -1, -1):
        rest = left // 10
        text[:, place] = left - rest * 10
        left = rest
    text += _ZERO
    text[values < 0, 0] = _MINUS
    return text.tobytes()
