"""Which leaves have jobs of certain kinds: the kinds of all leaves are one array, searched in one operation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from rankd.core.placement.leaf_content import LeafContent
from rankd.core.ranking.columns import BoolArray, IntArray


class LeafKinds(msgspec.Struct):
    """``kinds`` int64 (n,), leaf by leaf. The kinds of leaf ``places[i]`` begin at ``starts[i]``, both (n_leaves,).

    ``others``: the places of leaves that have changed since this was built; they are searched one by one.
    """

    kinds: IntArray
    starts: IntArray
    places: IntArray
    others: set[int]

    @classmethod
    def of(cls, contents: Mapping[int, LeafContent]) -> LeafKinds:
        """Build it from the contents of all leaves, by place. Each leaf has at least one kind."""
        parts = [content.kinds for content in contents.values()]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        return cls(
            kinds=np.concatenate(parts) if parts else np.empty(0, dtype=np.int64),
            starts=np.cumsum(sizes) - sizes,
            places=np.fromiter(contents, dtype=np.int64, count=len(parts)),
            others=set(),
        )

    def leaves_with(self, which: BoolArray, contents: Mapping[int, LeafContent]) -> set[int]:
        """The places of the leaves with jobs of at least one of the kinds in ``which``, bool (n_kinds,)."""
        found: set[int] = set()
        if len(self.places):
            found = set(self.places[np.logical_or.reduceat(which[self.kinds], self.starts)].tolist())
        found -= self.others
        found.update(place for place in self.others & contents.keys() if which[contents[place].kinds].any())
        return found
