"""A factor's formula, evaluated without a database of rankd."""

import pytest

from rankd.store.engine.formula import formula_values


def test_a_formula_has_a_value_for_each_row():
    rows = [{"nodes": 2.0, "limit": None}, {"nodes": 3.0, "limit": 4.0}]
    assert list(formula_values("coalesce({limit}, {nodes} * 10)", rows)) == [20.0, 4.0]


def test_values_are_exact():
    value = 0.1 + 0.2
    assert list(formula_values("{x}", [{"x": value}])) == [value]


def test_a_name_that_a_row_does_not_have_is_an_error():
    with pytest.raises(KeyError, match="y"):
        list(formula_values("{x} + {y}", [{"x": 1.0}]))
