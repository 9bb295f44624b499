"""Fair: the least used node is first, so that the load is spread.

Source: YuniKorn's FairnessPolicy (``nodesortpolicy: {type: fair}``, the default).

>>> import numpy as np
>>> Fair().key(np.array([0.7, 0.2])).argmin().item()          # the second node is emptier
1
"""

from __future__ import annotations

from rankd.core.ranking.columns import FloatArray


class Fair:
    """Order by utilisation, ascending."""

    name = "fair"

    def key(self, utilisation: FloatArray) -> FloatArray:
        """The utilisation: a smaller key is first."""
        return utilisation
