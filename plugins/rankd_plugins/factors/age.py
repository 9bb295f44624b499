"""Age: how long a job has been eligible, up to ``max_age_s``.

    age = min(1, (now - eligible_at) / max_age_s)          in [0, 1]; 0 while not eligible

Source: Slurm's multifactor plugin (PriorityMaxAge), Flux's wait_time_factor. A job is eligible if it is not held, its
dependencies are met, and its begin time has passed. So a held job does not grow older.

>>> import numpy as np
>>> float(np.minimum(1.0, 302400.0 / 604800.0))          # half of seven days
0.5
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per


class Age:
    """Grows with the waiting time. Jobs that wait equally long have the same value."""

    name = "age"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        self.max_age_s = settings.max_age_s

    def values(self, context: FactorContext) -> FloatArray:
        """Per job. If the clock was set back, the value is 0, not negative."""
        ages = (context.now - context.jobs.eligible_at) / self.max_age_s
        return np.where(np.isnan(ages), 0.0, np.clip(ages, 0.0, 1.0))

    def sql(self) -> str | None:
        """The formula of :meth:`values` in SQL."""
        return "COALESCE(MIN(1.0, MAX(0.0, ({ranked_at} - {eligible_at}) / {max_age_s})), 0.0)"

    def parameters(self) -> Mapping[str, float]:
        """``max_age_s``: the seconds of waiting after which the value is 1."""
        return {"max_age_s": float(self.max_age_s)}
