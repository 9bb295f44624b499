"""Factors with the values of the last full pass, for the deltas that follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import Factor, FactorContext, Per
from rankd.core.ranking.priority import FactorValues


class _PassFactor:
    """A factor with the group values of the pass, as the views show them. Values per job are computed."""

    def __init__(self, inner: Factor, row: FactorValues) -> None:
        self.name, self.lowest, self.highest = inner.name, inner.lowest, inner.highest
        self.per = row.per
        self._inner = inner
        self._row = row

    def values(self, context: FactorContext) -> FloatArray:
        return self._inner.values(context) if self.per is Per.JOB else self._row.values

    def sql(self) -> str | None:
        return self._inner.sql()

    def parameters(self) -> Mapping[str, float]:
        return self._inner.parameters()


def pass_factors(factors: Sequence[Factor], rows: Sequence[FactorValues]) -> list[Factor]:
    """The factors with the group values of a pass. ``rows[i]`` belongs to ``factors[i]``."""
    return [cast("Factor", _PassFactor(factor, row)) for factor, row in zip(factors, rows, strict=True)]
