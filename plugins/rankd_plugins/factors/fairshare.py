"""Fair share: how much less the job's association has used than it may.

The value belongs to the association. ``rankd.core.fairshare`` computes it (fair tree or classic) from the shares and
from the usage, decayed to the instant of the pass. It is in [0, 1]; 1 is the most deserving. A job without an
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
        """No settings are needed: the values are computed before the context is made."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per association."""
        return context.groups.fairshares
