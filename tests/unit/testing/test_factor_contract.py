"""The suite for plugin writers: rankd's own factors pass it, and each fault that it is there for is found."""

import numpy as np
import pytest

from rankd.config.plugin import factor_names, load_factor
from rankd.core.errors import FactorError
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import Per
from rankd.testing import FactorContract

NAMES = ["resource.gpu" if name == "resource" else name for name in factor_names()]
TESTS = [name for name in dir(FactorContract) if name.startswith("test_")]
SETTINGS = [PrioritySettings(), PrioritySettings(favor="small", size_relative_to_time=True, max_age_s=0.1)]


def contract(factor, settings=SETTINGS[0]):
    return type("Contract", (FactorContract,), {"factor": staticmethod(factor), "settings": settings})()


@pytest.mark.parametrize("settings", SETTINGS, ids=["usual", "other"])
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("name", NAMES)
def test_rankds_own_factors_keep_to_it(name, test, settings):
    getattr(contract(lambda given: load_factor(name, given), settings), test)()


class Good:
    name = "good"
    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings):
        pass

    def values(self, context):
        return context.jobs.urgencies / 31

    def sql(self):
        return "{urgency} / 31.0"

    def parameters(self):
        return {}


class OutOfRange(Good):
    def values(self, context):
        return context.jobs.urgencies / 10


class Nothing(Good):
    def values(self, context):
        return np.full(len(context.jobs), np.nan)


class NeedsJobs(Good):
    def values(self, context):
        return context.jobs.urgencies / context.jobs.urgencies.max()


class Relative(Good):
    def values(self, context):
        return context.jobs.urgencies / max(context.jobs.urgencies.sum(), 1)


class Remembers(Good):
    calls = 0

    def values(self, context):
        Remembers.calls += 1
        return np.full(len(context.jobs), 1.0 / Remembers.calls)


class Writes(Good):
    def values(self, context):
        context.jobs.nodes[:] = 1
        return super().values(context)


class Otherwise(Good):
    def sql(self):
        return "{urgency} / 32.0"


class EmptyRange(Good):
    highest = 0.0


FAULTS = [
    (EmptyRange, "test_it_implements_the_protocol"),
    (OutOfRange, "test_values_have_the_shape_and_range_that_it_declares"),
    (Nothing, "test_values_have_the_shape_and_range_that_it_declares"),
    (NeedsJobs, "test_no_jobs_are_no_error"),
    (Remembers, "test_the_same_state_gives_the_same_values"),
    (Writes, "test_what_it_is_given_stays_as_it_is"),
    (Relative, "test_a_value_does_not_depend_on_who_else_waits"),
    (Otherwise, "test_its_formula_in_sql_gives_the_same_values"),
]


@pytest.mark.parametrize("test", TESTS)
def test_a_good_one_passes(test):
    getattr(contract(Good), test)()


@pytest.mark.parametrize(("factor", "test"), FAULTS)
def test_each_fault_is_found(factor, test):
    with pytest.raises((AssertionError, FactorError)):
        getattr(contract(factor), test)()
