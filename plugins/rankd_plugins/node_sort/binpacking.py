"""Binpacking: among the nodes with room, the most used one is first, so that whole nodes stay free.

Source: YuniKorn's BinPackingPolicy (``nodesortpolicy: {type: binpacking}``).

>>> import numpy as np
>>> Binpacking().key(np.array([0.7, 0.2])).argmin().item()          # the first node is fuller
0
"""

from __future__ import annotations

from rankd.core.ranking.columns import FloatArray


class Binpacking:
    """Order by utilisation, descending."""

    name = "binpacking"

    def key(self, utilisation: FloatArray) -> FloatArray:
        """The negated utilisation: a smaller key is first."""
        return -utilisation
