"""Formulas of factors, as PostgreSQL computes them."""

import pytest

from rankd.store.engine.postgres_formula import in_postgres


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("g.x / g.y", "g.x /nullif( g.y, 0)"),
        ("a / (b - c) * 2", "a /nullif( (b - c), 0) * 2"),
        ("a / f(b, c / d) + 1", "a /nullif( f(b, c /nullif( d, 0)), 0) + 1"),
        ("a / CASE WHEN b THEN c END", "a /nullif( CASE WHEN b THEN c END, 0)"),
        ("min(a, Max(b, c))", "rankd_least(a, rankd_greatest(b, c))"),
        ("a - 0.5", "a - CAST('0.5' AS DOUBLE PRECISION)"),
        ("a / -b", "a /nullif( -b, 0)"),
    ],
)
def test_a_formula_divides_by_null_in_place_of_zero(formula, written):
    assert in_postgres(formula) == written
