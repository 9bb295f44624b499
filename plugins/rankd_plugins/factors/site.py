"""Site: a value per job that comes from outside, as a site sees fit.

    site = what was given for the job          in [0, 1]; 0 where nothing was

Source: Slurm's site factor (``PrioritySiteFactorPlugin``), there a number of points, here weighted as any other
factor. In ``rankd evaluate`` the values are the jobs' ``factors``. Not among the default weights.
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Site(Stored):
    """Nothing of its own: given values take the place of these zeros."""

    name = "site"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0
    is_given = True
    """Every value comes from outside, so where none is given per job, those of associations are all there are."""

    def __init__(self, settings: PrioritySettings) -> None:
        """Nothing to keep."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per job."""
        return np.zeros(len(context.jobs))
