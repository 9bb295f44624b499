"""Fair share: how much less the job's association has used than it may.

The value is the association's, computed by ``rankd.core.fairshare`` (fair tree or classic) from the shares
and the decayed usage at the instant of the pass; in [0, 1], 1 is the most deserving. A job without
association has 0.
"""

from __future__ import annotations

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Fairshare(Stored):
    """The same for all jobs of an association."""

    name = "fairshare"
    per = Per.ASSOCIATION
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        """Nothing to keep: the algorithm has run when the context is made."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per association."""
        return context.groups.fairshares
