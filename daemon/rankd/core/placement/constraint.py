"""Constraints on nodes, in the syntax of Kubernetes' label selectors.

    k=v   k==v   k!=v   k in (a,b)   k notin (a,b)   k   !k          joined by commas; all must hold

Each node has the label ``rankd/node``, with its own name.

As in Kubernetes, ``k!=v`` and ``k notin (…)`` hold for a node without the label ``k``. A key is a name of at most 63
characters; before it may be a DNS subdomain of at most 253 characters and a slash. A value has at most 63 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from rankd.core.errors import Refused
from rankd.core.near_name import cut

NODE = "rankd/node"
"""The label whose value is the node's name. No node can have another one."""
MAX_TERMS = 64
MAX_VALUES = 256
_NAMED = 3
"""Nodes that a message names."""
_LONGEST_NAME = 63
_LONGEST_PREFIX = 253
_OPERATORS = ("!=", "==", "=")

# Each of these can match in one way only, so that they take time in proportion to the text.
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_LABEL = re.compile(r"[a-z0-9-]+")
_SET = re.compile(r"(?P<key>[^\s()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")


class Requirement(msgspec.Struct, frozen=True):
    """One term: a condition on the label ``key``."""

    key: str
    operator: Literal["in", "notin", "exists", "absent"]
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str], name: str | None = None) -> bool:
        """Whether a node of this name with these labels meets the term."""
        value = name if self.key == NODE else labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None


def parse_constraints(text: str | None) -> tuple[Requirement, ...]:
    """The terms of a selector; empty for an empty text. The time is proportional to the length of the text.

    Raises:
        Refused: ``bad_constraints``, with the term that is not valid.
    """
    if text is None or not text.strip():
        return ()
    return tuple(_parse_term(term.strip()) for term in _terms(text))


def check_constraints(text: str | None, nodes: int = 1) -> None:
    """Check that a selector is valid, that it does not have too many terms and values, and names enough nodes.

    ``nodes``: the fewest that the job needs.

    Raises:
        Refused: ``bad_constraints``, ``too_many``, ``bad_nodes``.
    """
    terms = parse_constraints(text)
    n_values = max((len(term.values) for term in terms), default=0)
    for number, most, what in ((len(terms), MAX_TERMS, "terms"), (n_values, MAX_VALUES, "values in one term")):
        if number > most:
            message = f"constraints has {number} {what}, {most} are allowed; give the nodes a label of their own"
            raise Refused("too_many", message, "constraints")
    few = too_few_named(terms, nodes)
    if few is not None:
        raise Refused("bad_nodes", few, "nodes")


def too_few_named(terms: Sequence[Requirement], nodes: int) -> str | None:
    """What is wrong if a term names fewer nodes than the job needs; None if none does."""
    for term in terms:
        number = len(term.values)
        if term.key == NODE and term.operator == "in" and number < nodes:
            named = "1 node" if number == 1 else f"{number} nodes"
            return (
                f"the job names {named} (-w), but asks for {nodes}: rankd adds no others to named nodes; name {nodes},"
                f" or write -N {number}"
            )
    return None


def shown_constraints(text: str | None) -> str:
    """A selector as people read it: nodes that it names are ``on vm``, other terms are as they were written.

    >>> shown_constraints("gpu=a100,rankd/node in (n2,n1),rankd/node notin (n3)")
    'gpu=a100, on n1 or n2, not on n3'
    """
    labels, names = split_names(text)
    return ", ".join([*labels, *(f"{'on' if is_in else 'not on'} {named}" for is_in, named in names)])


def split_names(text: str | None) -> tuple[list[str], list[tuple[bool, str]]]:
    """The terms of a valid selector about labels, as written; and those about nodes, each wanted or not, with names."""
    labels, names = list[str](), list[tuple[bool, str]]()
    for term in _terms(text) if text and text.strip() else ():
        own = _parse_term(term.strip())
        if own.key == NODE and own.values:
            names.append((own.operator == "in", _either(sorted(own.values))))
        else:
            labels.append(term.strip())
    return labels, names


def _either(names: Sequence[str]) -> str:
    """``n1``, ``n1 or n2``, ``n1, n2, n3 or 5 more``."""
    shown = [*names] if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _terms(text: str) -> Iterator[str]:
    """The parts between commas, except commas inside parentheses."""
    start, opened = 0, False
    for match in re.finditer(r"[(),]", text):
        if match[0] == "," and not opened:
            yield text[start : match.start()]
            start = match.end()
        elif match[0] != ",":
            opened = match[0] == "("
    yield text[start:]


def _parse_term(term: str) -> Requirement:
    found = _of_set(term) if term.endswith(")") else _of_equality(term) or _of_existence(term)
    if found is None:
        message = f"'{cut(term)}' is not a constraint; write k=v, k!=v, k in (a,b), k notin (a,b), k or !k, with commas"
        raise Refused("bad_constraints", message, "constraints")
    return found


def _of_equality(term: str) -> Requirement | None:
    for operator in _OPERATORS:
        key, sign, value = (part.strip() for part in term.partition(operator))
        if sign:
            if not (_is_key(key) and _is_value(value)):
                return None
            return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))
    return None


def _of_set(term: str) -> Requirement | None:
    match = _SET.fullmatch(term)
    if match is None or not _is_key(match["key"]):
        return None
    values = frozenset(value.strip() for value in match["values"].split(","))
    if not all(map(_is_value, values)):
        return None
    return Requirement(match["key"], "in" if match["operator"] == "in" else "notin", values)


def _of_existence(term: str) -> Requirement | None:
    key = term.removeprefix("!").strip()
    if not _is_key(key):
        return None
    return Requirement(key, "absent" if term.startswith("!") else "exists")


def _is_key(text: str) -> bool:
    """Whether the text is a name, or a DNS subdomain, a slash and a name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not (0 < len(prefix) <= _LONGEST_PREFIX and all(map(_is_label, prefix.split(".")))):
        return False
    return _is_name(name)


def _is_value(text: str) -> bool:
    return not text or _is_name(text)


def _is_name(text: str) -> bool:
    if not 0 < len(text) <= _LONGEST_NAME or not _NAME.fullmatch(text):
        return False
    return text[0].isalnum() and text[-1].isalnum()


def _is_label(text: str) -> bool:
    return bool(_LABEL.fullmatch(text)) and text[0] != "-" and text[-1] != "-"


def satisfied(requirements: Sequence[Requirement], labels: Mapping[str, str], name: str | None = None) -> bool:
    """Whether a node of this name with these labels meets all terms."""
    return all(requirement.holds(labels, name) for requirement in requirements)
