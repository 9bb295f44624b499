"""Reads typed values from a YAML file, and collects every problem with its path and line.

A :class:`FilePlace` is one value of the file with its path. Its methods (:meth:`FilePlace.text`,
:meth:`FilePlace.count`, …) return the value in the asked type. If the value is wrong, they note an error instead of
raising, so that one reading finds every problem. Rules of a single file's format belong to the modules beside this one.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from rankd.config.yaml_lines import Entries, Items, Node, Scalar, Unreadable, compose, from_data
from rankd.core.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from collections.abc import Collection

_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n"})
_DIGITS = re.compile(r"\+?[0-9]{1,20}")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]{0,30})")
_MOST = 2**64 - 1


class Findings:
    """The errors and warnings of a file so far."""

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self._noted: set[Problem] = set()

    def error(self, path: str, line: int, message: str) -> None:
        """Note an error, for which the file is refused. A repeated error is noted once."""
        problem = Problem(path=path, line=line, message=message, file=self.file)
        if problem not in self._noted:
            self._noted.add(problem)
            self.errors.append(problem)

    def warn(self, code: str, path: str, line: int, message: str) -> None:
        """Note a warning, in spite of which the file is accepted."""
        self.warnings.append(Problem(code=code, path=path, line=line, message=message, file=self.file))

    def raise_errors(self) -> None:
        """End the reading if there are errors.

        Raises:
            ConfigurationError: with all errors, by line.
        """
        if self.errors:
            raise ConfigurationError(sorted(self.errors, key=lambda problem: problem.line))


class FilePlace:
    """A node, its place in the file, and the findings to add to. ``node`` is None if there is no node.

    ``line`` is the line of its key; of a list item, its first line; without a node, the line of the mapping around it.
    """

    __slots__ = ("findings", "line", "node", "path")

    def __init__(self, node: Node | None, path: str, findings: Findings, line: int) -> None:
        self.node = node
        self.path = path
        self.findings = findings
        self.line = line

    @property
    def given(self) -> bool:
        """Whether there is a value here; null does not count as one."""
        return self.node is not None and not (isinstance(self.node, Scalar) and self.node.is_null)

    def error(self, message: str) -> None:
        """Note an error at this place."""
        self.findings.error(self.path, self.line, message)

    def warn(self, code: str, message: str) -> None:
        """Note a warning at this place."""
        self.findings.warn(code, self.path, self.line, message)

    def entries(self) -> dict[str, FilePlace]:
        """The entries of a mapping with free keys, including null values."""
        if not self.given or not isinstance(self.node, Entries):
            if self.given:
                self.error(f"{self._shown()} is not a mapping; write 'key: value' lines here")
            return {}
        for key, line in self.node.repeated:
            self.findings.error(self._below(key), line, f"'{key}' is written twice; keep one of them")
        return {
            key: FilePlace(node, self._below(key), self.findings, self.node.lines[key])
            for key, node in self.node.nodes.items()
        }

    def nothing(self) -> FilePlace:
        """An empty place at this one, for values that the reader adds itself."""
        return FilePlace(None, self.path, self.findings, self.line)

    def entry(self, path: str) -> FilePlace:
        """The place under a key, or under dotted keys; an empty place if there is none."""
        here = self
        for key in path.split("."):
            node, line = None, here.line
            if isinstance(here.node, Entries) and key in here.node.nodes:
                node, line = here.node.nodes[key], here.node.lines[key]
            here = FilePlace(node, here._below(key), here.findings, line)
        return here

    def fields(self, known: Collection[str]) -> Fields:
        """The entries of a mapping with fixed keys. An unknown key is an error."""
        entries = self.entries()
        for key, place in entries.items():
            if key not in known:
                place.error(f"unknown key '{key}'; known here: {', '.join(known)}")
        return Fields(self, entries)

    def items(self) -> list[FilePlace]:
        """The items of a list."""
        if not self.given or not isinstance(self.node, Items):
            if self.given:
                self.error(f"{self._shown()} is not a list; write '- item' lines here")
            return []
        return [
            FilePlace(node, f"{self.path}[{position}]", self.findings, node.line)
            for position, node in enumerate(self.node.nodes)
        ]

    def text(self) -> str:
        """A scalar as written; ``""`` for null or no value."""
        if self.given and not isinstance(self.node, Scalar):
            self.error(f"{self._shown()} is written where a single value is needed")
        return self.node.written if self.given and isinstance(self.node, Scalar) else ""

    def texts(self) -> tuple[str, ...]:
        """A list of scalars."""
        return tuple(place.text() for place in self.items())

    def flag(self) -> bool:
        """A bool; false without a value."""
        word = self._plain("true or false").lower()
        if word and word not in _TRUE | _FALSE:
            self.error(f"'{word}' is neither true nor false")
        return word in _TRUE

    def count(self) -> int:
        """An unsigned number of 64 bits; 0 without a value."""
        word = self._plain("a whole number of at least 0")
        if not word:
            return 0
        if not _DIGITS.fullmatch(word) or int(word) > _MOST:
            self.error(f"'{word}' is not a count; write a whole number of at least 0")
            return 0
        return int(word)

    def integer(self) -> int | None:
        """A whole number; None without a value, or if the value is not a whole number."""
        word = self._plain("a whole number")
        if word and not _INTEGER.fullmatch(word):
            self.error(f"'{word}' is not a whole number")
            return None
        return int(word.replace("_", "")) if word else None

    def number(self) -> float:
        """A finite number; 0 without a value."""
        word = self._plain("a number")
        try:
            value = float(word or 0)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.error(f"'{word}' is not a number; write one such as 1.0")
            return 0.0
        return value

    def _plain(self, wanted: str) -> str:
        if self.given and not (isinstance(self.node, Scalar) and self.node.plain):
            self.error(f"{self._shown()} is written where {wanted} is needed, without quotes")
            return ""
        return self.text()

    def _below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _shown(self) -> str:
        if isinstance(self.node, Scalar):
            return f"'{self.node.written[:80]}'"
        return "a list" if isinstance(self.node, Items) else "a mapping"


class Fields:
    """The entries of a mapping, ``place``. ``fields["name"]`` is always a place; it is empty if none is given."""

    __slots__ = ("_entries", "place")

    def __init__(self, place: FilePlace, entries: dict[str, FilePlace]) -> None:
        self.place = place
        self._entries = entries

    def __getitem__(self, key: str) -> FilePlace:
        place = self._entries.get(key)
        if place is not None:
            return place
        path = f"{self.place.path}.{key}" if self.place.path else key
        return FilePlace(None, path, self.place.findings, self.place.line)


def parse(text: str, findings: Findings) -> FilePlace:
    """The one document of a file; an empty place for an empty file.

    Raises:
        ConfigurationError: the file can't be read, or has more than one document.
    """
    places = parse_all(text, findings)
    if len(places) > 1:
        places[1].error("a second document begins here; this file may have only one")
        findings.raise_errors()
    return places[0] if places else FilePlace(None, "", findings, 0)


def parse_all(text: str, findings: Findings) -> list[FilePlace]:
    """The documents of a file, including empty ones.

    Raises:
        ConfigurationError: the file can't be read.
    """
    try:
        return [FilePlace(node, "", findings, node.line) for node in compose(text)]
    except Unreadable as unreadable:
        findings.error("", unreadable.line, unreadable.message)
        raise ConfigurationError(findings.errors) from None


def place_of(document: object, findings: Findings, path: str = "") -> FilePlace:
    """A document that is already decoded from JSON; its places have no lines.

    Raises:
        ConfigurationError: it is nested too deeply.
    """
    try:
        return FilePlace(from_data(document), path, findings, 0)
    except Unreadable as unreadable:
        findings.error(path, 0, unreadable.message)
        raise ConfigurationError(findings.errors) from None
