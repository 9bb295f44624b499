"""Association: the priority of the job's (account, user) association, relative to the largest of all.

    association = priority / max(priority of all entries of the account tree)          in [0, 1]; 0 if all are 0

Source: Slurm's multifactor plugin (PriorityWeightAssoc). Not among the default weights.

>>> 5 / max(20, 5, 0)
0.25
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Association(Stored):
    """The same for all jobs of an association."""

    name = "association"
    per = Per.ASSOCIATION
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        """No settings are needed: the priorities are in the context."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per association. A negative priority counts as 0."""
        largest = context.groups.largest_association_priority
        priorities = np.maximum(context.groups.association_priorities, 0.0)
        return priorities / largest if largest > 0 else np.zeros_like(priorities)
