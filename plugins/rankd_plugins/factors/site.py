"""Site: a value per job that comes from outside; a site may use it for any purpose.

    site = the value given for the job          in [0, 1]; 0 if none was given

Source: Slurm's site factor (``PrioritySiteFactorPlugin``). There it is a number of points; here it is weighted like any
other factor. In ``rankd evaluate`` the values are the jobs' ``factors``. It is not among the default weights.
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per, Stored


class Site(Stored):
    """Its own values are zeros. Given values replace them."""

    name = "site"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0
    is_given = True
    """All values come from outside. If none is given per job, the values are stored per association."""

    def __init__(self, settings: PrioritySettings) -> None:
        """No settings are needed."""

    def values(self, context: FactorContext) -> FloatArray:
        """Zeros, per job."""
        return np.zeros(len(context.jobs))
