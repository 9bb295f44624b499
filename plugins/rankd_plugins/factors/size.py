"""Size: the fraction of its partition that a job asks for.

    favor large    (n/N + c/C) / 2
    favor small    ((N-n)/N + (C-c)/C) / 2                            n of N nodes, c of C cores; in [0, 1]

With ``size_relative_to_time``: max(c, n·C/N) / (time limit in minutes) / C, and 1 minus that for favor small. A job
without a time limit counts as unlimited: its value is 0, or 1 for favor small. An empty partition gives 0.
Source: Slurm's multifactor plugin, job size factor (PriorityFavorSmall, SMALL_RELATIVE_TO_TIME).

>>> (2 / 4 + 8 / 32) / 2
0.375
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per

_SQL = {
    (False, "large"): "({nodes} / {partition_nodes} + {cores} / {partition_cores}) / 2.0",
    (False, "small"): (
        "(({partition_nodes} - {nodes}) / {partition_nodes} + ({partition_cores} - {cores}) / {partition_cores}) / 2.0"
    ),
    (True, "large"): (
        "MAX({cores}, {nodes} * {partition_cores} / {partition_nodes}) / ({time_limit_s} / 60.0) / {partition_cores}"
    ),
}
_UNLIMITED = "CASE WHEN {partition_nodes} > 0 AND {partition_cores} > 0 THEN 0.0 END"
_SQL[True, "small"] = f"1.0 - COALESCE({_SQL[True, 'large']}, {_UNLIMITED})"


class Size:
    """The job's size, as a fraction of its partition. Large or small jobs get the higher value, as configured."""

    name = "size"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        self.favor = settings.favor
        self.relative_to_time = settings.size_relative_to_time

    def values(self, context: FactorContext) -> FloatArray:
        """Per job."""
        jobs, groups = context.jobs, context.groups
        total_nodes = groups.partition_nodes[jobs.partitions]
        total_cores = groups.partition_cores[jobs.partitions]
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = self._sizes(jobs.nodes.astype(np.float64), jobs.cores, total_nodes, total_cores, jobs.time_limits_s)
        sizes[~np.isfinite(sizes)] = 0.0
        return np.clip(sizes, 0.0, 1.0, out=sizes)

    def _sizes(
        self, n: FloatArray, c: FloatArray, total_n: FloatArray, total_c: FloatArray, limit_s: FloatArray
    ) -> FloatArray:
        if self.relative_to_time:
            limit_s = np.where(np.isnan(limit_s), np.inf, limit_s)
            relative: FloatArray = np.maximum(c, n * total_c / total_n) / (limit_s / 60.0) / total_c
            return relative if self.favor == "large" else 1.0 - relative
        if self.favor == "large":
            return (n / total_n + c / total_c) / 2.0
        return ((total_n - n) / total_n + (total_c - c) / total_c) / 2.0

    def sql(self) -> str | None:
        """The formula of :meth:`values` in SQL. A division by zero or by a missing limit is NULL there."""
        return f"COALESCE(MIN(1.0, MAX(0.0, {_SQL[self.relative_to_time, self.favor]})), 0.0)"

    def parameters(self) -> Mapping[str, float]:
        """Returns an empty mapping: the formula has no parameters."""
        return {}
