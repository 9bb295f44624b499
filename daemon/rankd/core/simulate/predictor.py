"""What the scheduler of a simulation takes for a job's run time when it plans: its limit, or a prediction.

A prediction is made when a job is submitted, from what its user's jobs have taken that had ended then. It is at most
the limit. A job that outlives it is expected to use its whole limit from then on. It is not ended.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Literal, get_args

from rankd.core.ranking.columns import IntArray
from rankd.core.simulate.population import Population

Runtime = Literal["requested", "exact", "mean2", "median20"]
RUNTIMES: tuple[str, ...] = get_args(Runtime)

_KEPT = {"mean2": 2, "median20": 20}
_LEAST_S = 1.0


class Predictor:
    """Writes the expected run times of jobs into ``work.expected_s``.

    ``requested``: the limit. ``exact``: the run time. ``mean2``: the mean of the user's last two run times, or the only
    one; without any, the limit (Tsafrir, Etsion, Feitelson: Backfilling Using System-Generated Predictions Rather Than
    User Runtime Estimates, IEEE TPDS 18(6), 2007). ``median20``: the limit times the median share of their limits that
    the user's last 20 jobs took, as the forecaster estimates it; before there are 20, the limit.
    """

    def __init__(self, work: Population, runtime: Runtime) -> None:
        self._work = work
        self._runtime = runtime
        self._past: dict[str, deque[float]] = {}

    @property
    def is_exact(self) -> bool:
        """Whether no job can outlive what is expected of it."""
        return self._runtime in ("requested", "exact")

    def submit(self, places: IntArray) -> None:
        """Predict these new jobs."""
        if self._runtime == "exact":
            self._work.expected_s[places] = self._work.runs_s[places]
        elif self._runtime != "requested":
            for place in places.tolist():
                self._work.expected_s[place] = self._predicted(place)

    def end(self, places: IntArray) -> None:
        """Learn from these jobs, which have just ended."""
        if self.is_exact:
            return
        for place in places.tolist():
            run_s, limit_s = float(self._work.runs_s[place]), float(self._work.limits_s[place])
            past = self._past.setdefault(self._work.jobs[place].user, deque(maxlen=_KEPT[self._runtime]))
            past.append(run_s if self._runtime == "mean2" else run_s / limit_s)

    def _predicted(self, place: int) -> float:
        limit_s, past = float(self._work.limits_s[place]), self._past.get(self._work.jobs[place].user)
        if self._runtime == "mean2":
            found = limit_s if not past else sum(past) / len(past)
        else:
            found = limit_s if past is None or len(past) < _KEPT["median20"] else limit_s * median(past)
        return min(limit_s, max(_LEAST_S, found))
