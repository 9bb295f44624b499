"""A simulation over time, as step functions: processors in use, and jobs that wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.ranking.columns import FloatArray
from rankd.core.simulate.population import Population

MOST_POINTS = 4_000
"""A longer series is shown by its means over equal periods."""


class Series(NamedTuple):
    """A step function: ``values`` float64 (n,) from ``begins_s`` float64 (n,) on, seconds after the first submission.

    The last value holds at the end.
    """

    begins_s: FloatArray
    values: FloatArray


def in_use(work: Population, starts_s: FloatArray) -> Series:
    """The processors of running jobs."""
    ran = ~np.isnan(starts_s)
    sizes = work.processors[ran].astype(np.float64)
    return _steps(work, starts_s[ran], starts_s[ran] + work.runs_s[ran], sizes)


def waiting(work: Population, starts_s: FloatArray) -> Series:
    """The number of jobs that have been submitted and have not started."""
    submits_s = work.columns.submitted_at
    return _steps(work, submits_s, np.where(np.isnan(starts_s), np.inf, starts_s), np.ones(len(starts_s)))


def _steps(work: Population, begins_s: FloatArray, ends_s: FloatArray, amounts: FloatArray) -> Series:
    ended = np.isfinite(ends_s)
    times = np.concatenate([begins_s, ends_s[ended]]) - work.columns.submitted_at.min(initial=np.inf)
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(np.concatenate([amounts, -amounts[ended]])[order])
    is_last = np.append(times[1:] > times[:-1], [True] * bool(len(times)))
    return _shortened(Series(times[is_last], values[is_last]))


def _shortened(series: Series) -> Series:
    """At most :data:`MOST_POINTS` points: the means over equal periods."""
    begins_s, values = series
    if len(begins_s) <= MOST_POINTS:
        return series
    edges = np.linspace(begins_s[0], begins_s[-1], MOST_POINTS + 1)
    areas = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(begins_s))])
    return Series(edges[:-1], np.diff(np.interp(edges, begins_s, areas)) / np.diff(edges))
