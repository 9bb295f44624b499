"""Queue: the ``priority.factor`` of the job's queue, relative to the largest of all leaf queues.

    queue = priority.factor / max(priority.factor of all leaf queues)          in [0, 1]; 0 if not set

Source: Slurm's partition factor (PriorityJobFactor). A queue's offset is something else: it moves the whole queue
against its siblings and does not change the job's own priority.

>>> 1 / max(1, 10)
0.1
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Queue(Stored):
    """The same for all jobs of a queue."""

    name = "queue"
    per = Per.QUEUE
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        """No settings are needed: the table of queues is in the context."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per queue; parents have NaN in the context and get 0."""
        given = context.groups.queue_factors
        factors = np.where(np.isnan(given), 0.0, given)
        largest = factors.max(initial=0.0)
        return factors / largest if largest > 0 else np.zeros_like(factors)
