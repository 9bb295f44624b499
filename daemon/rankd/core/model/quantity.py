"""Amounts of resources: ``500m`` of a core, ``8Gi`` of memory, 2 GPUs.

Inside rankd every amount is an int: ``vcore`` in thousandths of a core, memory in bytes, any other type in
its own unit. Outside (JSON, views, tables), vcore is in cores.

Source: the quantities of YuniKorn 1.8 (``pkg/common/resources/quantity.go``). As there, some suffixes of the right form
(``K``, ``ki``, ``mi``) are not valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.model.amount_text import compared

if TYPE_CHECKING:
    from collections.abc import Mapping

Resources = dict[str, int]
Amount = int | float | str

VCORE = "vcore"
MEMORY = "memory"
LARGEST = 2**63 - 1
MOST_CORES = 1_000_000
MOST_OF_A_NODE = 2**50
"""The largest amount, except of cores, that one node may have or that a job may ask of it (memory: 1 PiB)."""
LARGEST_TOTAL = 2**60
"""The largest internal amount that a job may ask of all its nodes together. Sums of several jobs fit into 64 bits."""

_QUANTITY = re.compile(r"([0-9]+)[\t\n\f\r ]*([mkKMGTPE]i?)?")
_DECIMAL: dict[str, int] = {letter: 10 ** (3 * power) for power, letter in enumerate("kMGTPE", start=1)}
_BINARY: dict[str, int] = {f"{letter}i": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_FACTORS = {"": 1, **_DECIMAL, **_BINARY}
_MOST_DIGITS = len(str(LARGEST))


def parse_quantity(resource: str, text: str) -> int:
    """The internal amount of a quantity with an optional suffix.

    Raises:
        ValueError: the text is empty, negative or malformed, has ``m`` for a type other than vcore, or is too large.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"'{text}' is not a valid quantity; write a whole number and perhaps a suffix: 500m, 4, 8Gi")
    digits, suffix = match.group(1).lstrip("0") or "0", match.group(2) or ""
    factor = _factor(resource, text, suffix)
    # digits are counted before the conversion, because Python refuses to convert thousands of digits
    if len(digits) > _MOST_DIGITS or int(digits) * factor > LARGEST:
        raise ValueError(f"'{text}' does not fit into 64 bits; write a smaller amount")
    return int(digits) * factor


def _factor(resource: str, text: str, suffix: str) -> int:
    if suffix == "m":
        if resource != VCORE:
            raise ValueError(f"'{text}': the suffix m (thousandths) is for vcore only; write whole units")
        return 1
    if suffix not in _FACTORS:
        known = ", ".join([*(["m"] if resource == VCORE else []), *filter(None, _FACTORS)])
        raise ValueError(f"'{text}': unknown suffix '{suffix}'; write one of {known}")
    return _FACTORS[suffix] * (1000 if resource == VCORE else 1)


def parse_amount(resource: str, value: Amount) -> int:
    """The internal amount of a JSON value. A text is parsed by :func:`parse_quantity`.

    A number is in cores for vcore, and in whole units for other types.

    Raises:
        ValueError: as in :func:`parse_quantity`; also for NaN, infinities, and too fine fractions.
    """
    if isinstance(value, str):
        return parse_quantity(resource, value)
    if isinstance(value, bool) or value != value or value in (float("inf"), float("-inf")) or value < 0:  # noqa: PLR0124 - NaN
        raise ValueError(f"{value} is not a valid amount; write a number from 0, or a quantity such as 500m, 8Gi")
    scaled = value * 1000 if resource == VCORE else value
    if scaled > LARGEST:
        raise ValueError(f"{value} does not fit into 64 bits; write a smaller amount")
    amount = round(scaled)
    if abs(amount - scaled) > (1e-6 if resource == VCORE else 0):
        finest = "thousandths" if resource == VCORE else "whole units"
        raise ValueError(f"{value} of {resource} is too fine; write {finest}")
    return amount


def check_node_amount(resource: str, amount: int) -> None:
    """Check that one node could have this (internal) amount.

    Raises:
        ValueError: the amount is more than any node may have.
    """
    most = MOST_CORES * 1000 if resource == VCORE else MOST_OF_A_NODE
    if amount > most:
        asked, bound = compared(resource, amount, most)
        raise ValueError(f"{asked} is more than one node may have ({bound})")


def parse_resources(amounts: Mapping[str, Amount], field: str = "resources") -> Resources:
    """All internal amounts of a record. Types with an amount of 0 are left out.

    Raises:
        Refused: ``bad_quantity`` with the field of the first bad amount.
    """
    parsed: Resources = {}
    for resource, value in amounts.items():
        try:
            amount = parse_amount(resource, value)
        except ValueError as error:
            raise Refused("bad_quantity", f"{resource}: {error}", f"{field}.{resource}") from None
        if amount:
            parsed[resource] = amount
    return parsed


def shown(resource: str, amount: int) -> float:
    """An amount as users see it: vcore in cores, other types unchanged."""
    if resource != VCORE:
        return amount
    return amount / 1000 if amount % 1000 else amount // 1000


def shown_resources(resources: Mapping[str, int]) -> dict[str, float]:
    """All amounts as users see them."""
    return {resource: shown(resource, amount) for resource, amount in resources.items()}


def scaled(resources: Mapping[str, int], times: int) -> Resources:
    """The amounts multiplied by ``times``."""
    return dict(resources) if times == 1 else {kind: amount * times for kind, amount in resources.items()}


def add_amounts(total: Resources, amounts: Mapping[str, int]) -> None:
    """Add ``amounts`` to ``total``, in place."""
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
