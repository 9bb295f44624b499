"""User: the urgency that the user gave the job.

    user = (urgency - 16) / 16          in [-1, 1); urgency 0..31, default 16

Source: Flux's urgency (``flux submit --urgency``); 0 holds a job, 31 expedites it.

>>> (24 - 16) / 16
0.5
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rankd.core.model.job import URGENCY_DEFAULT
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per


class User:
    """How important the job is to its user."""

    name = "user"
    per = Per.JOB
    lowest = -1.0
    highest = math.nextafter(1.0, 0.0)

    def __init__(self, settings: PrioritySettings) -> None:
        """No settings are needed: the scale of urgencies is fixed."""

    def values(self, context: FactorContext) -> FloatArray:
        """Per job."""
        return (context.jobs.urgencies.astype(np.float64) - URGENCY_DEFAULT) / 16.0

    def sql(self) -> str | None:
        """The formula of :meth:`values` in SQL."""
        return "({urgency} - 16.0) / 16.0"

    def parameters(self) -> Mapping[str, float]:
        """Returns an empty mapping: the formula has no parameters."""
        return {}
