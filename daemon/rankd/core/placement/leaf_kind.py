"""Which leaves have jobs of some kinds: the kinds of all leaves one behind the other, asked all at once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from rankd.core.placement.leaf_content import LeafContent
from rankd.core.ranking.columns import BoolArray, IntArray


class LeafKinds(msgspec.Struct):
    """``kinds`` int64 (n,), leaf by leaf; of each leaf of ``places`` (n_leaves,) they begin at one of ``starts``.

    ``others``: leaves that have changed since; they are looked at one by one.
    """

    kinds: IntArray
    starts: IntArray
    places: IntArray
    others: set[int]

    @classmethod
    def of(cls, contents: Mapping[int, LeafContent]) -> LeafKinds:
        """All leaves, by place, as they are; each has at least one kind."""
        parts = [content.kinds for content in contents.values()]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        return cls(
            kinds=np.concatenate(parts) if parts else np.empty(0, dtype=np.int64),
            starts=np.cumsum(sizes) - sizes,
            places=np.fromiter(contents, dtype=np.int64, count=len(parts)),
            others=set(),
        )

    def leaves_with(self, which: BoolArray, contents: Mapping[int, LeafContent]) -> set[int]:
        """The places of leaves that have jobs of any of these kinds, bool (n_kinds,)."""
        found: set[int] = set()
        if len(self.places):
            found = set(self.places[np.logical_or.reduceat(which[self.kinds], self.starts)].tolist())
        found -= self.others
        found.update(place for place in self.others & contents.keys() if which[contents[place].kinds].any())
        return found
