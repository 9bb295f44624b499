"""Amounts of resources as people read them in messages. Pure, and without imports: commands that only look use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BINARY = (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10))
_VCORE, _MEMORY = "vcore", "memory"
_UNIT = 1000
"""Amounts of cores inside rankd are thousandths."""


def shown_bytes(amount: float) -> str:
    """Memory in the largest binary unit that it fills.

    >>> [shown_bytes(b) for b in (0, 2**30, 1536 * 2**20)]
    ['0', '1G', '1.5G']
    """
    for letter, size in _BINARY:
        if amount >= size:
            return f"{amount / size:.4g}{letter}"
    return f"{amount:g}"


def shown_amount(kind: str, amount: int) -> str:
    """An internal amount: cores, memory in binary units, and other types as numbers.

    >>> shown_amount("vcore", 1500), shown_amount("memory", 4 * 2**30), shown_amount("gpu", 2)
    ('1.5', '4G', '2')
    """
    if kind == _MEMORY:
        return shown_bytes(amount)
    return f"{amount / _UNIT if kind == _VCORE else amount:.12g}"


def compared(kind: str, amount: int, bound: int) -> tuple[str, str]:
    """Two different amounts, in words that differ: memory in bytes, if it is the same in larger units.

    >>> compared("memory", 5 * 2**30, 4 * 2**30), compared("memory", 2**40 + 1, 2**40)
    (('5G', '4G'), ('1099511627777', '1099511627776'))
    """
    first, second = shown_amount(kind, amount), shown_amount(kind, bound)
    return (str(amount), str(bound)) if first == second and amount != bound else (first, second)


def shown_all(amounts: Mapping[str, float | str | None]) -> str:
    """The amounts of a record, in which cores are cores. Texts are as a user wrote them; None is hidden.

    >>> shown_all({"vcore": 1.0, "memory": 2**30, "gpu": 2})
    'vcore 1, memory 1G, gpu 2'
    """
    return ", ".join(f"{kind} {_outside(kind, amount)}" for kind, amount in amounts.items())


def _outside(kind: str, amount: float | str | None) -> str:
    if amount is None or isinstance(amount, str):
        return amount or "-"
    return shown_bytes(amount) if kind == _MEMORY else f"{amount:.12g}"
