"""Job priorities: the weighted sum of all factors, and what overrides it.

    priority = clamp_int32( class_value + trunc( sum_i weight_i * value_i ) )

Products are added in float64 from left to right, in configured order. The sum is truncated once, towards zero. Source:
the generic form of Flux's job-priority design (weight[], factor[], name[]), and Slurm's truncation of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from rankd.core.errors import FactorError
from rankd.core.model import int32
from rankd.core.model.job import URGENCY_EXPEDITE
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray, IntArray, JobColumns
from rankd.core.ranking.factor import Factor, FactorContext, Per, evaluate

INT32_MIN, INT32_MAX = int32.INT32_MIN, int32.INT32_MAX


class Override(StrEnum):
    """Why a priority is not the sum of its factors."""

    EXPEDITED = "expedited"
    FIXED = "fixed"
    CLASS = "class"
    FCFS = "fcfs"
    INITIAL = "initial"


class FactorValues(msgspec.Struct, frozen=True, kw_only=True):
    """One factor in one pass: its weight and its values, (n_jobs,) or (n_groups,) according to ``per``.

    ``keys`` int64, of the same shape as ``values``: the ids of the jobs or groups of the values.
    """

    name: str
    weight: float
    per: Per
    values: FloatArray
    keys: IntArray

    def of_jobs(self, jobs: JobColumns) -> FloatArray:
        """The values per job. A job without a group has 0."""
        return _expand(self.values, 0.0, _group_of(self.per, jobs))

    def points(self, jobs: JobColumns) -> FloatArray:
        """Value times weight per job. Values of groups are multiplied before they are expanded to jobs."""
        return _expand(self.values * self.weight, 0.0 * self.weight, _group_of(self.per, jobs))


class Priorities(msgspec.Struct, frozen=True, kw_only=True):
    """The result for all jobs: ``points_sums`` float64 (n_jobs,), ``priorities`` int64 (n_jobs,) in int32 range.

    ``failures``: the errors of factors that failed. Their last good values were used, or 0.
    """

    factors: tuple[FactorValues, ...]
    points_sums: FloatArray
    priorities: IntArray
    failures: tuple[FactorError, ...]


def compute_priorities(
    context: FactorContext,
    settings: PrioritySettings,
    factors: Sequence[Factor],
    last_good: Mapping[str, FactorValues] | None = None,
    given: Mapping[str, FloatArray] | None = None,
) -> Priorities:
    """Priorities of all jobs at the context's instant. O(n_jobs x n_factors), no Python loop over jobs.

    ``given``: by factor, values that replace its own, float64 (n_jobs,). A job with NaN keeps the factor's own value.
    """
    jobs = context.jobs
    rows, failures = [], []
    for factor in factors:
        try:
            values = evaluate(factor, context)
        except FactorError as error:
            failures.append(error)
            values = _fallback(factor, context, last_good or {})
        weight, keys = settings.weights[factor.name], _keys(factor, context)
        rows.append(FactorValues(name=factor.name, weight=weight, per=factor.per, values=values, keys=keys))
        if given and factor.name in given:
            rows[-1] = replace_values(rows[-1], given[factor.name], jobs)
    sums = weighted_sum(rows, jobs)
    return Priorities(
        factors=tuple(rows),
        points_sums=sums,
        priorities=apply_overrides(jobs, settings, clamp_sum(jobs.class_values, sums)),
        failures=tuple(failures),
    )


def replace_values(row: FactorValues, given: FloatArray, jobs: JobColumns) -> FactorValues:
    """The factor with values per job. ``given`` (n_jobs,) replaces its values; NaN keeps the factor's own value."""
    values = np.where(np.isnan(given), row.of_jobs(jobs), given)
    return FactorValues(name=row.name, weight=row.weight, per=Per.JOB, values=values, keys=jobs.ids)


def with_values(row: FactorValues, found: Mapping[int, float]) -> FactorValues:
    """The factor with the values in ``found`` added or replaced, by key. ``keys`` stay ascending."""
    keys = np.fromiter(found.keys(), dtype=np.int64, count=len(found))
    values = np.fromiter(found.values(), dtype=np.float64, count=len(found))
    stays = ~np.isin(row.keys, keys)
    keys, values = np.concatenate([row.keys[stays], keys]), np.concatenate([row.values[stays], values])
    order = np.argsort(keys, kind="stable")
    return FactorValues(name=row.name, weight=row.weight, per=row.per, values=values[order], keys=keys[order])


def weighted_sum(rows: Sequence[FactorValues], jobs: JobColumns) -> FloatArray:
    """The sum of weight times value per job, added from left to right."""
    total: FloatArray | None = None
    with np.errstate(over="ignore"):  # with huge weights a sum may be infinite; it is clamped later
        for row in rows:
            points = row.points(jobs)
            total = points if total is None else np.add(total, points, out=total)
    return np.zeros(len(jobs)) if total is None else total


def clamp_sum(class_values: IntArray, points_sums: FloatArray) -> IntArray:
    """``clamp_int32(class_value + trunc(points_sum))``. Exact, because sums beyond 2^53 are clamped."""
    sums = np.trunc(points_sums)
    sums += class_values
    return np.clip(sums, INT32_MIN, INT32_MAX, out=sums).astype(np.int64)


def apply_overrides(jobs: JobColumns, settings: PrioritySettings, priorities: IntArray) -> IntArray:
    """Apply the policy, then fixed priorities, then expedition. A later one replaces an earlier one."""
    if settings.policy == "class":
        priorities = jobs.class_values
    elif settings.policy == "fcfs":
        priorities = initial_priority(jobs.ids)
    overridden = priorities.copy()
    fixed = np.flatnonzero(~np.isnan(jobs.fixed_priorities))
    overridden[fixed] = jobs.fixed_priorities[fixed].astype(np.int64)
    overridden[jobs.urgencies == URGENCY_EXPEDITE] = INT32_MAX
    return overridden


def initial_priority(ids: IntArray) -> IntArray:
    """First come, first served: job 1 gets 2147483647, and each later job 1 less. Source: Flux."""
    return np.maximum(INT32_MAX + 1 - ids, INT32_MIN)


def _group_of(per: Per, jobs: JobColumns) -> IntArray | None:
    columns = {Per.ASSOCIATION: jobs.associations, Per.QOS: jobs.qos, Per.QUEUE: jobs.queues}
    return columns.get(per)


def _expand(values: FloatArray, outside: float, groups: IntArray | None) -> FloatArray:
    """The values of groups, expanded to jobs. A job without a group gets ``outside``."""
    if groups is None:
        return values
    if not len(values):
        return np.full(len(groups), outside)
    expanded: FloatArray = values[groups]
    has_none = groups < 0
    return np.where(has_none, outside, expanded) if has_none.any() else expanded


def _keys(factor: Factor, context: FactorContext) -> IntArray:
    """The ids of the jobs or groups of the values. The index of a group is its id."""
    if factor.per is Per.JOB:
        return context.jobs.ids
    return np.arange(context.groups.size(factor.per, len(context.jobs)), dtype=np.int64)


def _fallback(factor: Factor, context: FactorContext, last_good: Mapping[str, FactorValues]) -> FloatArray:
    """The last good values of the same jobs or groups; 0 if there is none yet."""
    keys = _keys(factor, context)
    last = last_good.get(factor.name)
    if last is None or last.per is not factor.per or not len(last.keys):
        return np.zeros(len(keys))
    places = np.minimum(np.searchsorted(last.keys, keys), len(last.keys) - 1)
    return np.where(last.keys[places] == keys, last.values[places], 0.0)
