"""Resource: the fraction of its partition's amount of one resource type that a job asks for.

    resource.<type> = asked / total of the partition          in [0, 1]; 0 if the partition has none

The name of the weight contains the type. ``asked`` is the amount of the whole job, on all its nodes. Source: Slurm's
TRES factors (PriorityWeightTRES); its ``gres/gpu`` is ``resource.gpu`` here. Not among the default weights.

>>> (2 * 4) / 32          # 2 nodes with 4 GPUs each, of 32
0.25
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per


class Resource:
    """One instance per weight: ``resource.gpu`` and ``resource.memory`` are two factors of this class."""

    takes = "a resource type"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings, kind: str) -> None:
        del settings
        self.kind = kind
        self.name = f"resource.{kind}"

    def values(self, context: FactorContext) -> FloatArray:
        """Per job."""
        groups, jobs = context.groups, context.jobs
        asked = np.array([shape.get(self.kind, 0) for shape in groups.shapes], dtype=np.float64)
        totals = np.array([total.get(self.kind, 0) for total in groups.partition_totals], dtype=np.float64)
        if not len(jobs):
            return np.empty(0)
        total = totals[jobs.partitions]
        fractions = np.divide(asked[jobs.shapes], total, out=np.zeros(len(jobs)), where=total > 0)
        return np.clip(fractions, 0.0, 1.0)

    def sql(self) -> str | None:
        """Returns None: the values are stored per job."""
        return None

    def parameters(self) -> Mapping[str, float]:
        """Returns an empty mapping: without a formula there are no parameters."""
        return {}
