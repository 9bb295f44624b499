"""What reaches a terminal or a pipe: output without control characters of others, and text measured in columns."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"

_OWN = re.compile(f"({re.escape(BOLD)}|{re.escape(PLAIN)})")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")


class Guarded:
    """A text stream that passes lines, tabs, bold and plain, and escapes every other control character.

    The net under all commands; values in a line are escaped where the line is made, since a line break can't be
    told from theirs here.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """As the stream's; the number of characters that were given."""
        if not (text.isascii() and text.replace("\n", "").isprintable()):
            parts = _OWN.split(text)
            parts[::2] = [printable(part, keep="\n\t") for part in parts[::2]]
            text = _encodable("".join(parts), self.unguarded.encoding)
        self.unguarded.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the stream's
        return getattr(self.unguarded, name)


def _encodable(text: str, encoding: str | None) -> str:
    """With escapes for what the terminal's encoding does not have."""
    return text.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")


def print_line(text: str, *, error: bool = False) -> None:
    """One line, whatever the values in it hold."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def columns(text: str) -> int:
    """How many columns of a terminal printable text takes, behind a space: some marks take one there, and none alone.

    >>> columns("abc"), columns("日本"), columns("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(wcswidth(" " + text) - 1, 0)


def cut(text: str, width: int, end: str = "…") -> str:
    """At most ``width`` columns; what was cut ends with ``end``. Never splits what is written as one character.

    >>> cut("日本語", 5), cut("abc", 3), cut("ae\u0301b", 2)
    ('日本…', 'abc', 'a…')
    """
    if columns(text) <= width:
        return text
    kept, used = "", 0
    for cluster in _clusters(text):
        used += columns(cluster)
        if used > width - columns(end):
            break
        kept += cluster
    return (kept + end)[: max(width, 0)] if width < columns(end) else kept + end


def _clusters(text: str) -> Iterator[str]:
    """A character with the marks that combine with it; a flag is two letters."""
    cluster = ""
    for character in text:
        joins = columns(character) == 0 or columns(cluster + character) == columns(cluster)
        if cluster and (joins or (len(cluster) == 1 and _FLAG.match(cluster) and _FLAG.match(character))):
            cluster += character
        else:
            if cluster:
                yield cluster
            cluster = character
    if cluster:
        yield cluster


def left(text: str, width: int) -> str:
    """Filled with blanks on the right to ``width`` columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """Filled with blanks on the left to ``width`` columns."""
    return " " * (width - columns(text)) + text
