"""The lines of the keys of a TOML document, so that errors can name them. tomllib does not keep them.

The document is one that tomllib has read. What is inside inline tables and lists has the line of their key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence

from rankd.core.errors import Problem

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|\#[^\n]*|[\[\]{}=\n]', re.DOTALL
)
_PLACE = re.compile(r" \(at (?:line (?P<line>[0-9]+), column [0-9]+|end of document)\)$")
_LAST_PART = re.compile(r"(\.[^.]*|\[[0-9]+\]|^[^.\[]+)$")


def with_lines(problems: Sequence[Problem], text: str) -> list[Problem]:
    """The problems of this text, with the lines of their keys; of the nearest one around it, if a key has no line."""
    lines = key_lines(text) if any(problem.path and not problem.line for problem in problems) else {}
    return [problem if problem.line else problem._replace(line=_line_of(problem.path, lines)) for problem in problems]


def syntax_problem(error: tomllib.TOMLDecodeError, text: str, file: str) -> Problem:
    """The problem of a text that is not TOML, with its line."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:
        return Problem(file=file, path="", message=message)
    line = int(place["line"]) if place["line"] else text.rstrip("\n").count("\n") + 1
    return Problem(file=file, path="", message=message[: place.start()], line=line)


def key_lines(text: str) -> Mapping[str, int]:
    r"""The line of each key and table, from 1, by its path: ``priority.weights.age``, ``qos[1].name``.

    >>> key_lines('[a]\nb.c = 1\n[[q]]\n[[q]]\nd = [\n 1]\n"x.y" = 2')
    {'a': 1, 'a.b': 2, 'a.b.c': 2, 'q': 3, 'q[0]': 3, 'q[1]': 4, 'q[1].d': 5, 'q[1].x.y': 7}
    """
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for line, statement in _statements(text):
        if statement.startswith("[["):
            table = _path("", _keys(statement.strip("[]")), counts)
            counts[table] = counts.get(table, 0) + 1
            found.setdefault(table, line)
            table = f"{table}[{counts[table] - 1}]"
            found.setdefault(table, line)
        elif statement.startswith("["):
            table = _path("", _keys(statement.strip("[]")), counts)
            found.setdefault(table, line)
        else:
            keys = _keys(statement)
            for depth in range(1, len(keys) + 1):
                found.setdefault(_path(table, keys[:depth], {}), line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The line at which each statement begins, and its header, or its key without the value."""
    line, start, depth, end = 1, 0, 0, -1
    begun = line
    for token in _TOKEN.finditer(f"{text}\n"):
        word = token[0]
        if word in "[{":
            depth += 1
        elif word in "]}":
            depth -= 1
        elif ((word == "=" and depth == 0) or word.startswith("#")) and end < 0:
            end = token.start()
        if word == "\n" and depth == 0:
            if statement := text[start : token.start() if end < 0 else end].strip():
                yield begun, statement
            start, end, begun = token.end(), -1, line + 1
        line += word.count("\n")


def _keys(text: str) -> list[str]:
    """The parts of a dotted key: ``a."b.c"``."""
    keys, inner = list[str](), dict[str, object](tomllib.loads(f"{text.strip()} = 0"))
    while inner:
        [(key, value)] = inner.items()
        keys.append(key)
        inner = value if isinstance(value, dict) else {}
    return keys


def _path(table: str, keys: Sequence[str], counts: Mapping[str, int]) -> str:
    """The path of a key in a table. A list of tables stands for its last one, but at the end."""
    path = table
    for place, key in enumerate(keys):
        path = f"{path}.{key}" if path else key
        if path in counts and place < len(keys) - 1:
            path = f"{path}[{counts[path] - 1}]"
    return path


def _line_of(path: str, lines: Mapping[str, int]) -> int:
    while path:
        if path in lines:
            return lines[path]
        path = _LAST_PART.sub("", path)
    return 0
