"""Conversion of a document's amounts, which users write, to internal ones."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.errors import Problem
from rankd.core.model.quantity import Amount, Resources, parse_amount


def read_amounts(
    amounts: Mapping[str, Amount], path: str, problems: list[Problem], *, keep_zeros: bool = False
) -> Resources:
    """The internal amounts: vcore in thousandths, without types of which the amount is 0.

    For each amount that is not valid, a problem with its path is added to ``problems``. ``keep_zeros``: amounts of 0
    are kept. This is for the capacity of nodes, where 0 of a type is not the same as an unknown type.
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
    """Add ``amounts`` to ``total``, in place."""
    for kind, amount in amounts.items():
        total[kind] = total.get(kind, 0) + amount
