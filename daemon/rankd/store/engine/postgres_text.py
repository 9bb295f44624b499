"""Statements that are text, for PostgreSQL: parameters are ``$1``, and the words of :mod:`.word` are replaced.

The functions whose names begin with ``rankd_`` are in the database: :mod:`rankd.store.schema.postgres_function`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from rankd.store.engine.postgres_formula import in_postgres

_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|/\*(?P<mark>[^*]*)\*/|(?P<index>INDEXED\s+BY\s+\w+)|[(),?]|[^'"/(),?I]+|/|I"""
)
_NAME = re.compile(r"[A-Za-z_]+$")
_IN_ORDER = "in order"

Render = Callable[[Sequence[str]], str]
"""Writes a call with these arguments."""


def _calls(name: str) -> Render:
    return lambda arguments: f"{name}({','.join(arguments)})"


def _before_as(arguments: Sequence[str]) -> str:
    """What is cast: the text before ``AS INTEGER``."""
    return ",".join(arguments).removesuffix(" AS INTEGER")


def _piece(arguments: Sequence[str]) -> str:
    return f"CAST({_before_as(arguments).replace('substr(', 'rankd_piece(', 1)} AS BIGINT)"


def _number_in(arguments: Sequence[str]) -> str:
    column, path = arguments
    place = path.strip().removeprefix("'$[' || ").removesuffix(" || ']'")
    return f"CAST(CAST({column} AS json) ->> CAST({place} AS integer) AS BIGINT)"


_WORDS: dict[str, Render] = {
    "numbers": _calls("rankd_numbers"),
    "texts": _calls("rankd_texts"),
    "values": _calls("rankd_values"),
    "members": _calls("rankd_members"),
    "unindexed": lambda arguments: ",".join(arguments).removeprefix("+"),
    "text_at": _calls("rankd_text_at"),
    "number_at": _calls("rankd_number_at"),
    "value_at": _calls("rankd_value_at"),
    "number_in": _number_in,
    "type_of": _calls("rankd_type_of"),
    "without": _calls("rankd_without"),
    "object": lambda arguments: f"coalesce(json_object_agg({','.join(arguments)})::text, '{{}}')",
    "whole": lambda arguments: f"CAST(trunc({_before_as(arguments)}) AS BIGINT)",
    "parsed": lambda arguments: f"CAST({_before_as(arguments)} AS BIGINT)",
    "piece": _piece,
    "smaller": _calls("least"),
    "larger": _calls("greatest"),
    "number_or_text": lambda arguments: f"CAST({','.join(arguments)} AS TEXT)",
    "formula": lambda arguments: f"({in_postgres(','.join(arguments))})",
    "hex": lambda arguments: f"upper(encode({','.join(arguments)}, 'hex'))",
}
_WORDS_WITH_VALUE: dict[str, Callable[[Sequence[str], str], str]] = {
    "in_cores": lambda _, column: f"rankd_in_cores({column})",
    "joined": lambda arguments, place: f"string_agg({','.join(arguments)} ORDER BY {place})",
    "after": lambda arguments, mark: f"split_part({arguments[0]}, '{mark}', 2)",
    "leading": lambda arguments, mark: f"CAST(split_part({_before_as(arguments)}, '{mark}', 1) AS BIGINT)",
    "instant": lambda _, at: f"to_char(to_timestamp({at}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
}
"""Words whose comment also has the value."""


class _Writer:
    """The statement so far, and where its open parentheses and their commas are."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._open: list[list[int]] = []
        self._closed: list[int] = []
        self._parameters = 0

    def add(self, text: str) -> None:
        if text == "?":
            self._parameters += 1
            text = f"${self._parameters}"
        elif text == "(":
            self._open.append([len(self._parts)])
        elif text == "," and self._open:
            self._open[-1].append(len(self._parts))
        elif text == ")":
            self._closed = self._open.pop()
        self._parts.append(text)

    def word(self, mark: str) -> None:
        """Replace the call that was just closed."""
        if mark == _IN_ORDER:
            self._parts[-1] = self._parts[-1].rstrip().removesuffix("CROSS")
            return
        ends = [*self._closed[1:], len(self._parts) - 1]
        arguments = ["".join(self._parts[a + 1 : b]) for a, b in zip(self._closed, ends, strict=True)]
        first = self._closed[0]
        before = _NAME.sub("", self._parts[first - 1]) if first else ""
        name, _, value = mark.partition(" ")
        text = _WORDS[name](arguments) if not value else _WORDS_WITH_VALUE[name](arguments, value)
        self._parts[first - 1 if first else 0 :] = [before, text]

    def text(self) -> str:
        return "".join(self._parts)


@lru_cache(maxsize=1024)
def for_postgres(statement: str) -> str:
    """The statement as PostgreSQL reads it."""
    writer = _Writer()
    for token in _TOKEN.finditer(statement):
        if token["mark"] is not None:
            writer.word(token["mark"])
        elif token["index"] is None:
            writer.add(token[0])
    return writer.text()
