"""YAML documents as trees of nodes that know their lines.

Scalars stay the text that was written: YuniKorn's format takes ``max: {vcore: 010}`` as a string, and so do
we. Nothing is ever constructed from a tag. Documents whose aliases would blow them up, or that contain
themselves, are refused before anyone walks them. Typed questions are :mod:`rankd.config.yaml_reader`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
import yaml

DEEPEST = 100
LARGEST = 1_000_000

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Scalar(msgspec.Struct, frozen=True):
    """A single value as it was written. ``plain``: it was written without quotes."""

    line: int
    written: str
    plain: bool
    size: int = 1

    @property
    def is_null(self) -> bool:
        """Whether there is no value: ``key:``, ``~`` or ``null``."""
        return self.plain and self.written in _NULLS


class Items(msgspec.Struct, frozen=True):
    """A list."""

    line: int
    nodes: tuple[Node, ...]
    size: int


class Entries(msgspec.Struct, frozen=True):
    """A mapping, with its keys as text and their ``lines``. ``repeated`` has keys that occur again."""

    line: int
    nodes: dict[str, Node]
    lines: dict[str, int]
    size: int
    repeated: tuple[tuple[str, int], ...] = ()


Node = Scalar | Items | Entries


class Unreadable(Exception):
    """The text has no document that can be traversed. ``line`` counts from 1; 0 if it is not known."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def compose(text: str) -> list[Node]:
    """The documents of a text, including empty ones.

    Raises:
        Unreadable: it is not YAML, or nested too deeply or multiplied too much by aliases.
    """
    try:
        # the C loader is eight times faster, but overflows its stack on a deeply nested text
        composed = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        return [_Conversion().node(document) for document in composed]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise Unreadable(line, f"this is not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, f"the character {error.character!r} is not allowed in YAML; remove it") from None
    except RecursionError:
        raise Unreadable(0, f"nested more than {DEEPEST} levels deep; flatten it") from None


def from_data(document: object, depth: int = 0) -> Node:
    """A document that is already decoded from JSON, as nodes without lines.

    Raises:
        Unreadable: it is nested too deeply.
    """
    if depth > DEEPEST:
        raise Unreadable(0, f"nested more than {DEEPEST} levels deep; flatten it")
    if isinstance(document, Mapping):
        pairs = [(Scalar(0, str(key), False), from_data(value, depth + 1)) for key, value in document.items()]
        return _entries(0, pairs)
    if isinstance(document, list | tuple):
        nodes = tuple(from_data(item, depth + 1) for item in document)
        return Items(0, nodes, _total(nodes))
    if isinstance(document, str):
        return Scalar(0, document, False)
    if document is None or isinstance(document, bool):
        return Scalar(0, {None: "null", True: "true", False: "false"}[document], True)
    return Scalar(0, str(document), True)


class _Conversion:
    """Converts PyYAML's nodes to ours. Each is converted once, even if several aliases name it."""

    def __init__(self) -> None:
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, composed: yaml.Node) -> Node:
        key, line = id(composed), composed.start_mark.line + 1
        if key in self._done:
            return self._done[key]
        if key in self._open:
            raise Unreadable(line, "a mapping or list contains itself by an alias; write it out")
        if len(self._open) >= DEEPEST:
            raise Unreadable(line, f"nested more than {DEEPEST} levels deep; flatten it")
        self._open.add(key)
        converted = self._convert(composed, line)
        self._open.remove(key)
        if converted.size > LARGEST:
            raise Unreadable(line, f"with its aliases written out, this has more than {LARGEST} values")
        self._done[key] = converted
        return converted

    def _convert(self, composed: yaml.Node, line: int) -> Node:
        if isinstance(composed, yaml.ScalarNode):
            return Scalar(line, composed.value, not composed.style)
        if isinstance(composed, yaml.SequenceNode):
            nodes = tuple(self.node(item) for item in composed.value)
            return Items(line, nodes, _total(nodes))
        pairs = [(self._key(key), self.node(value)) for key, value in composed.value]
        return _entries(line, pairs)

    def _key(self, composed: yaml.Node) -> Scalar:
        key = self.node(composed)
        if not isinstance(key, Scalar):
            raise Unreadable(key.line, "a list or mapping is written where a key is needed; write text")
        return key


def _entries(line: int, pairs: Sequence[tuple[Scalar, Node]]) -> Entries:
    nodes: dict[str, Node] = {}
    lines: dict[str, int] = {}
    repeated: list[tuple[str, int]] = []
    merged: list[Entries] = []
    for key, value in pairs:
        if key.plain and key.written == "<<":
            merged.extend(_merged(value))
        elif key.written in nodes:
            repeated.append((key.written, key.line))
        else:
            nodes[key.written] = value
            lines[key.written] = key.line
    for source in merged:
        nodes = {**source.nodes, **nodes}
        lines = {**source.lines, **lines}
    return Entries(line, nodes, lines, _total(nodes.values()), tuple(repeated))


def _merged(value: Node) -> Iterator[Entries]:
    """The mappings that ``<<`` merges; of several sources the first has precedence."""
    sources = value.nodes if isinstance(value, Items) else (value,)
    for source in sources:
        if not isinstance(source, Entries):
            raise Unreadable(source.line, "'<<' merges mappings only; give it the alias of one")
        yield source


def _total(nodes: Collection[Node]) -> int:
    return 1 + sum(node.size for node in nodes)
