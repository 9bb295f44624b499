"""QoS: the priority of the job's quality of service, relative to the highest of all.

    qos = priority / max(priority of all QoS)          or the QoS's explicit ``factor``; in [0, 1]

0 if the job's QoS has no priority, or if all QoS have 0. Source: Slurm's multifactor plugin.

>>> 50 / max(100, 50, 0)
0.5
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Qos(Stored):
    """The same for all jobs of a QoS."""

    name = "qos"
    per = Per.QOS
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        """No settings are needed: the table of QoS is in the context."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per QoS."""
        priorities = context.groups.qos_priorities
        largest = priorities.max(initial=0.0)
        relative = priorities / largest if largest > 0 else np.zeros_like(priorities)
        explicit = context.groups.qos_factors
        return np.where(np.isnan(explicit), relative, explicit)
