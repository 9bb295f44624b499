import math

import numpy as np
import pytest
from builder import context, job_row

from rankd.core.errors import FactorError
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import SQL_NAMES, Factor, Per, evaluate
from rankd.store.schema.view import _SQL_NAMES
from rankd_plugins.factors.age import Age
from rankd_plugins.factors.size import Size

TWO_JOBS = context(job_row(1), job_row(2), fairshares=[0.1, 0.2, 0.3], qos_priorities=[1.0] * 4, qos_factors=[0.0] * 4)


class Given:
    """A factor that gives what it is told to."""

    name = "given"
    lowest = -1.0
    highest = 1.0

    def __init__(self, values, per=Per.JOB):
        self._values = values
        self.per = per

    def values(self, _context):
        if isinstance(self._values, Exception):
            raise self._values
        return self._values

    def sql(self):
        return None

    def parameters(self):
        return {}


@pytest.mark.parametrize("values", [[-1.0, 1.0], [0.0, -0.0], [True, False], [0, 1], np.float32([0.5, 0.25])])
def test_values_inside_the_range_are_taken_as_float64(values):
    taken = evaluate(Given(values), TWO_JOBS)
    assert taken.dtype == np.float64
    assert taken.tolist() == [float(value) for value in values]


@pytest.mark.parametrize("bad", [1.0000000000000002, -1.0000000000000002, math.inf, -math.inf, math.nan])
def test_one_value_outside_the_range_refuses_the_factor_and_is_named(bad):
    with pytest.raises(FactorError, match=r"\[-1\.0, 1\.0\]") as caught:
        evaluate(Given([0.5, bad]), TWO_JOBS)
    assert caught.value.factor == "given"
    assert caught.value.code == "factor_failed"
    assert f"gave {bad}" in str(caught.value)


@pytest.mark.parametrize("values", [[0.5], [0.5] * 3, 0.5, [[0.5, 0.5]], [], None])
def test_values_of_another_shape_are_refused(values):
    with pytest.raises(FactorError):
        evaluate(Given(values), TWO_JOBS)


@pytest.mark.parametrize(("per", "size"), [(Per.JOB, 2), (Per.ASSOCIATION, 3), (Per.QOS, 4), (Per.QUEUE, 1)], ids=str)
def test_there_is_one_value_per_group_of_the_kind(per, size):
    assert evaluate(Given([0.5] * size, per), TWO_JOBS).tolist() == [0.5] * size
    with pytest.raises(FactorError, match=f"expected \\({size},\\)"):
        evaluate(Given([0.5] * (size + 1), per), TWO_JOBS)


@pytest.mark.parametrize("error", [ZeroDivisionError("by nought"), KeyError("x"), MemoryError(), ValueError("no")])
def test_whatever_a_plugin_raises_becomes_a_factor_error_that_names_it(error):
    with pytest.raises(FactorError, match=f"'given': raised {type(error).__name__}") as caught:
        evaluate(Given(error), TWO_JOBS)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("values", [["a", "b"], [object(), object()], [1j, 0j]])
def test_values_that_are_no_numbers_are_refused(values):
    with pytest.raises(FactorError):
        evaluate(Given(values), TWO_JOBS)


def test_the_views_know_every_name_that_a_factors_sql_may_use():
    assert set(_SQL_NAMES) == SQL_NAMES


@pytest.mark.parametrize("kind", [Age, Size])
def test_rankds_own_factors_implement_the_protocol(kind):
    assert isinstance(kind(PrioritySettings()), Factor)
