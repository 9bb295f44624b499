"""Constraints on nodes, in the syntax of Kubernetes' label selectors.

    k=v   k==v   k!=v   k in (a,b)   k notin (a,b)   k   !k          joined by commas; all must hold

As in Kubernetes, ``k!=v`` and ``k notin (…)`` hold for a node without the label ``k``; a key is a name of up to 63
characters, behind a DNS subdomain of up to 253 and a slash if it has one; a value has up to 63.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from rankd.core.errors import Refused

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_KEY = rf"((?=[^/]{{1,253}}/){_LABEL}(\.{_LABEL})*/)?{_NAME}"
_VALUE = rf"({_NAME})?"
_EQUALITY = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<not>!?)\s*(?P<key>{_KEY})")
_COMMA_OUTSIDE = re.compile(r",(?![^(]*\))")


class Requirement(msgspec.Struct, frozen=True):
    """One term: the label ``key`` and what it must be."""

    key: str
    operator: Literal["in", "notin", "exists", "absent"]
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets the term."""
        match self.operator:
            case "in":
                return labels.get(self.key) in self.values
            case "notin":
                return labels.get(self.key) not in self.values
            case "exists":
                return self.key in labels
            case "absent":
                return self.key not in labels


def parse_constraints(text: str | None) -> tuple[Requirement, ...]:
    """The terms of a selector; none for an empty one.

    Raises:
        Refused: ``bad_constraints``, naming the term that can't be read.
    """
    if text is None or not text.strip():
        return ()
    return tuple(_parse_term(term.strip()) for term in _COMMA_OUTSIDE.split(text))


def _parse_term(term: str) -> Requirement:
    if match := _EQUALITY.fullmatch(term):
        operator: Literal["in", "notin"] = "notin" if match["operator"] == "!=" else "in"
        return Requirement(match["key"], operator, frozenset({match["value"]}))
    if match := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in match["values"].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Requirement(match["key"], "in" if match["operator"] == "in" else "notin", values)
    if match := _EXISTS.fullmatch(term):
        return Requirement(match["key"], "absent" if match["not"] else "exists")
    message = f"'{term}' is no constraint; write k=v, k!=v, k in (a,b), k notin (a,b), k or !k, joined by commas"
    raise Refused("bad_constraints", message, "constraints")


def satisfied(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels meets all terms."""
    return all(requirement.holds(labels) for requirement in requirements)
