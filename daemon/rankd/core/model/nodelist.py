"""Node lists as clusters write them: ``n[01-08,11]`` for n01 … n08 and n11.

Source: Slurm's hostlist expressions. The last run of digits in a name is folded, if there is text before it. Leading
zeros are kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST = 1_000_000
"""The most names in one expression. A larger number is taken for a typo."""

_NAME = re.compile(r"(?P<prefix>.+?)(?P<digits>[0-9]+)(?P<suffix>[^0-9]*)", re.DOTALL)
_PART = re.compile(r"(?P<prefix>[^\[\],]*)\[(?P<ranges>[0-9,\-]+)\](?P<suffix>[^\[\],]*)|(?P<plain>[^\[\],]+)")


def fold(names: Iterable[str]) -> str:
    """A short expression for a set of names, in ascending order.

    >>> fold(["n11", "n01", "n02", "login"])
    'login,n[01-02,11]'
    """
    plain: list[str] = []
    numbered: dict[tuple[str, str], list[str]] = {}
    for name in set(names):
        match = _NAME.fullmatch(name)
        if match:
            numbered.setdefault((match["prefix"], match["suffix"]), []).append(match["digits"])
        else:
            plain.append(name)
    folded = [_fold_group(prefix, suffix, digits) for (prefix, suffix), digits in numbered.items()]
    return ",".join(sorted(plain + folded))


def _fold_group(prefix: str, suffix: str, digits: list[str]) -> str:
    ranges: list[list[str]] = []
    for number in sorted(digits, key=lambda text: (len(text), text)):
        if ranges and _follows(ranges[-1][-1], number):
            ranges[-1].append(number)
        else:
            ranges.append([number])
    if len(digits) == 1:
        return f"{prefix}{digits[0]}{suffix}"
    texts = (run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)
    return f"{prefix}[{','.join(texts)}]{suffix}"


def _follows(number: str, other: str) -> bool:
    """Whether ``other`` is ``number`` plus 1, written with the same width."""
    return str(int(number) + 1).zfill(len(number)) == other


def unfold(expression: str) -> list[str]:
    """The names in an expression, in its order.

    >>> unfold("login,n[01-02,11]")
    ['login', 'n01', 'n02', 'n11']

    Raises:
        ValueError: the expression is malformed, a range is descending, or there are more than a million names.
    """
    names: list[str] = []
    place = 0
    while place < len(expression):
        match = _PART.match(expression, place)
        end = match.end() if match else place
        if not match or (end < len(expression) and expression[end] != ",") or end + 1 == len(expression):
            raise ValueError(f"'{expression}' is not a valid node list; write one like n[01-08,11],login")
        names += [match["plain"]] if match["plain"] else _unfold_part(match, LARGEST - len(names))
        place = end + 1
    return names


def _unfold_part(match: re.Match[str], room: int) -> list[str]:
    names: list[str] = []
    for part in match["ranges"].split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"'{part}' in '{match[0]}' is not a valid range; write one like 01-08")
        if int(last) - int(first) >= room - len(names):
            raise ValueError(f"the node list has more than {LARGEST} names (at '{match[0]}')")
        width = len(first)
        names += [f"{match['prefix']}{n:0{width}}{match['suffix']}" for n in range(int(first), int(last) + 1)]
    return names
