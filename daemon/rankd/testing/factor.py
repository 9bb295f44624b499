"""The rules for every factor, as tests to inherit; :mod:`rankd.core.ranking.factor` explains them."""

# ruff: noqa: S101, D102 - this module consists of assertions, and the tests' names are their rules

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray, IntArray, JobColumns
from rankd.core.ranking.factor import SQL_NAMES, Factor, FactorContext, Groups, Per, evaluate
from rankd.core.ranking.name import Names
from rankd.store.engine.formula import formula_values

NOW = 1_700_000_000.0
N_JOBS = 200
N_GROUPS = 7
SEEDS = range(20)

NAMES = Names(
    associations=[(account, user) for account in ("physics", "chemistry") for user in ("alice", "bob", "carol")]
    + [("biology", "dave")],
    qos=["normal", "high", "low", "interactive", "night", "test", "free"],
    queues=["root", *(f"root.{name}" for name in ("default", "a", "b", "c", "c.d")), ""],
    partitions=["default", "gpu", "empty"],
)
"""The names of the groups of :func:`factor_context`; the last queue is no longer configured."""


def factor_context(seed: int, n_jobs: int = N_JOBS) -> FactorContext:
    """Jobs and groups with every extreme: empty partitions, no limits, unset values. Same seed, same jobs.

    ``n_jobs`` jobs refer to 7 associations, QoS and queues and 3 partitions, the last of which has no nodes. Some have
    the index -1: an association, a QoS or a queue that the last full pass did not know.
    """
    numbers = np.random.default_rng(seed)
    shapes = [{"vcore": int(amount), "gpu": int(amount) % 3} for amount in numbers.integers(0, 64_000, 5)]
    jobs = _jobs(numbers, n_jobs, len(shapes))
    return FactorContext(now=NOW, jobs=jobs, groups=_groups(numbers, shapes))


def _jobs(numbers: np.random.Generator, n_jobs: int, n_shapes: int) -> JobColumns:
    def index(size: int) -> IntArray:
        return numbers.integers(0, size, n_jobs)

    submitted_at = NOW - numbers.choice([0.0, 0.5, 3600.0, 1e6, 1e9], n_jobs)
    return JobColumns(
        ids=np.sort(numbers.choice(2**40, n_jobs, replace=False)),
        associations=index(N_GROUPS + 1) - 1,
        queues=index(N_GROUPS + 1) - 1,
        qos=index(N_GROUPS + 1) - 1,
        partitions=index(3),
        applications=index(N_GROUPS) - 1,
        class_values=numbers.integers(-(2**31), 2**31, n_jobs),
        urgencies=index(32),
        nodes=numbers.choice([1, 2, 64, 10_000], n_jobs),
        vcores=numbers.choice([0, 500, 64_000], n_jobs),
        shapes=index(n_shapes),
        time_limits_s=_some_unset(numbers, numbers.choice([0.001, 60.0, 1e7], n_jobs)),
        submitted_at=submitted_at,
        eligible_at=_some_unset(numbers, submitted_at + numbers.choice([0.0, 10.0, 1e10], n_jobs)),
        fixed_priorities=_some_unset(numbers, numbers.integers(-(2**31), 2**31, n_jobs).astype(np.float64)),
    )


def _groups(numbers: np.random.Generator, shapes: list[Resources]) -> Groups:
    return Groups(
        fairshares=numbers.random(N_GROUPS),
        qos_priorities=numbers.integers(0, 100, N_GROUPS).astype(np.float64),
        qos_factors=_some_unset(numbers, numbers.random(N_GROUPS)),
        queue_factors=_some_unset(numbers, numbers.random(N_GROUPS) * 10),
        partition_nodes=np.array([10_000.0, 1.0, 0.0]),
        partition_cores=np.array([640_000.0, 0.5, 0.0]),
        partition_totals=[{"vcore": 640_000_000, "gpu": 40_000}, {"vcore": 500}, {}],
        shapes=shapes,
        association_priorities=numbers.integers(0, 9, N_GROUPS).astype(np.float64),
        largest_association_priority=9.0,
        names=NAMES,
    )


def _some_unset(numbers: np.random.Generator, values: FloatArray, share: float = 0.3) -> FloatArray:
    """Set a share of the values to NaN, "not set"."""
    values[numbers.random(len(values)) < share] = np.nan
    return values


class FactorContract:
    """Inherit this, and set the factor's class, or a callable that takes the settings; ``settings`` are optional."""

    factor: ClassVar[Callable[[PrioritySettings], Factor]]
    settings: ClassVar[PrioritySettings] = PrioritySettings()

    def made(self) -> Factor:
        """The factor, built as rankd builds it."""
        return type(self).factor(self.settings)

    def test_it_implements_the_protocol(self) -> None:
        factor = self.made()
        assert isinstance(factor, Factor), f"{factor!r} lacks a part of rankd.core.ranking.factor.Factor"
        assert factor.name, "a factor needs a name: that of its entry point"
        assert factor.per in set(Per), f"per is {factor.per!r}; it must be a rankd.core.ranking.factor.Per"
        assert factor.lowest < factor.highest, f"an empty range: [{factor.lowest}, {factor.highest}]"

    def test_values_have_the_shape_and_range_that_it_declares(self) -> None:
        factor = self.made()
        for seed in SEEDS:
            values = evaluate(factor, factor_context(seed))
            assert not np.isnan(values).any(), f"NaN among the values (factor_context({seed}))"

    def test_no_jobs_are_no_error(self) -> None:
        evaluate(self.made(), factor_context(0, n_jobs=0))

    def test_the_same_state_gives_the_same_values(self) -> None:
        factor, context = self.made(), factor_context(1)
        first = evaluate(factor, context).tobytes()
        evaluate(factor, factor_context(2))
        assert evaluate(factor, context).tobytes() == first, "values depend on what was asked before"
        assert evaluate(self.made(), context).tobytes() == first, "values depend on the instance"

    def test_what_it_is_given_stays_as_it_is(self) -> None:
        context = factor_context(3)
        before = copy.deepcopy(context)
        evaluate(self.made(), context)
        for name in context.jobs.__struct_fields__:
            same = np.array_equal(getattr(context.jobs, name), getattr(before.jobs, name), equal_nan=True)
            assert same, f"the factor writes into jobs.{name}; copy before you change"
        for name in ("fairshares", "qos_priorities", "qos_factors", "queue_factors", "association_priorities"):
            same = np.array_equal(getattr(context.groups, name), getattr(before.groups, name), equal_nan=True)
            assert same, f"the factor writes into groups.{name}; copy before you change"

    def test_a_value_does_not_depend_on_who_else_waits(self) -> None:
        factor = self.made()
        for seed in SEEDS:
            context = factor_context(seed)
            places = np.arange(0, N_JOBS, 3)
            fewer = msgspec.structs.replace(context, jobs=context.jobs.take(places))
            all_values, values = evaluate(factor, context), evaluate(factor, fewer)
            expected = all_values[places] if factor.per is Per.JOB else all_values
            assert values.tobytes() == expected.tobytes(), "a delta generation asks for new jobs alone"

    def test_its_formula_in_sql_gives_the_same_values(self) -> None:
        factor = self.made()
        sql = factor.sql()
        if sql is None:
            return
        assert factor.per is Per.JOB, "only factors per job have a formula"
        for seed in SEEDS:
            context = factor_context(seed)
            places = range(0, N_JOBS, 10)
            rows = [_names(context, place, factor.parameters()) for place in places]
            expected = evaluate(factor, context)[places]
            for names, found, value in zip(rows, formula_values(sql, rows), expected, strict=True):
                assert found == value, f"{found!r} by SQL, {value!r} by values(): {names}"


def _names(context: FactorContext, place: int, parameters: Mapping[str, float]) -> dict[str, float | None]:
    """The names that a formula may use, with the values of one job."""
    jobs, groups = context.jobs, context.groups
    partition = int(jobs.partitions[place])
    known: dict[str, float | None] = {
        "ranked_at": context.now,
        "submitted_at": float(jobs.submitted_at[place]),
        "eligible_at": _or_null(jobs.eligible_at[place]),
        "urgency": int(jobs.urgencies[place]),
        "nodes": int(jobs.nodes[place]),
        "cores": float(jobs.cores[place]),
        "time_limit_s": _or_null(jobs.time_limits_s[place]),
        "partition_nodes": float(groups.partition_nodes[partition]),
        "partition_cores": float(groups.partition_cores[partition]),
    }
    assert known.keys() == SQL_NAMES
    assert not known.keys() & parameters.keys(), "a parameter has the name of a column"
    return known | dict(parameters)


def _or_null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
