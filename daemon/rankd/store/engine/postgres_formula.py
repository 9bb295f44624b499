"""A factor's formula, which is written for SQLite, as PostgreSQL computes the same float64.

The differences: a division by zero is NULL in SQLite and an error in PostgreSQL; ``MIN`` and ``MAX`` of several values
have other names; and a number such as ``0.1`` is a decimal number there.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""\s+|'(?:[^']|'')*'|"[^"]*"|(?P<float>\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)"""
    r"""|\d+|[\w.$"]+|."""
)
_NAMES = {"MIN": "rankd_least", "MAX": "rankd_greatest", "REAL": "DOUBLE PRECISION"}
_ENDS = {"(": ")", "CASE": "END"}


def in_postgres(formula: str) -> str:
    """The formula in the words of PostgreSQL."""
    return "".join(_divisors(list(_tokens(formula))))


def _tokens(formula: str) -> list[str]:
    found = []
    for token in _TOKEN.finditer(formula):
        text = token[0]
        found.append(f"CAST('{text}' AS DOUBLE PRECISION)" if token["float"] else _NAMES.get(text.upper(), text))
    return found


def _divisors(tokens: list[str]) -> list[str]:
    """The tokens, with NULL for each divisor that is 0."""
    done: list[str] = []
    place = 0
    while place < len(tokens):
        done.append(tokens[place])
        place += 1
        if done[-1] == "/":
            end = _operand_end(tokens, place)
            done += ["nullif(", *_divisors(tokens[place:end]), ", 0)"]
            place = end
    return done


def _operand_end(tokens: list[str], place: int) -> int:
    """Where the value ends that begins here: a number, a name, a call, or what is in parentheses."""
    while place < len(tokens) and (tokens[place].isspace() or tokens[place] in "+-"):
        place += 1
    if place < len(tokens) and tokens[place].upper() not in _ENDS:
        place += 1
        if place >= len(tokens) or tokens[place] != "(":
            return place
    depth = 0
    while place < len(tokens):
        word = tokens[place].upper()
        depth += (word in _ENDS) - (word in _ENDS.values())
        place += 1
        if depth == 0:
            break
    return place
