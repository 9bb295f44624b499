"""Amounts of a document, as users write them, read into internal ones."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.errors import Problem
from rankd.core.model.quantity import Amount, Resources, parse_amount


def read_amounts(
    amounts: Mapping[str, Amount], path: str, problems: list[Problem], *, keep_zeros: bool = False
) -> Resources:
    """As internal ones, vcore in thousandths, zeros left out; what is no amount is noted with its path.

    ``keep_zeros``: for what nodes have, where none of a type is not the same as no word about it.
    """
    read: Resources = {}
    for kind, value in amounts.items():
        try:
            amount = parse_amount(kind, value)
        except ValueError as error:
            problems.append(Problem(path=f"{path}.{kind}", message=str(error)))
        else:
            if amount or keep_zeros:
                read[kind] = amount
    return read


def add(total: Resources, amounts: Mapping[str, int]) -> None:
    """Add to a total, in place."""
    for kind, amount in amounts.items():
        total[kind] = total.get(kind, 0) + amount
