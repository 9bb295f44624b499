"""Output for terminals and pipes: escapes control characters in texts of users, and measures text in columns."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"

_OWN = r"(\x1b\[1m|\x1b\[0m)"  # compiled at its first use, since every command imports this module
_FIRST_FLAG, _LAST_FLAG = "\U0001f1e6", "\U0001f1ff"


class Guarded:
    """A text stream that passes line breaks, tabs, bold and plain, and escapes every other control character.

    All commands write through it. Line breaks inside values are escaped earlier, where the line is made: here they
    can't be distinguished from the ends of lines.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """Write the text with escapes. Returns the number of its characters."""
        if not (text.isascii() and text.replace("\n", "").isprintable()):
            parts = re.split(_OWN, text)
            parts[::2] = [printable(part, keep="\n\t") for part in parts[::2]]
            text = _encodable("".join(parts), self.unguarded.encoding)
        self.unguarded.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the stream's
        return getattr(self.unguarded, name)


def _encodable(text: str, encoding: str | None) -> str:
    """The text with escapes for characters that the terminal's encoding lacks."""
    return text.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")


def print_line(text: str, *, error: bool = False) -> None:
    """Print one line. Line breaks in its values are escaped."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def columns(text: str) -> int:
    """The number of terminal columns of a printable text after a space: some marks take a column only there.

    >>> columns("abc"), columns("日本"), columns("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(wcswidth(" " + text) - 1, 0)


def cut(text: str, width: int, end: str = "…") -> str:
    """The text, cut to ``width`` columns. A cut text ends with ``end``. Combined characters are never split.

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
    """Each character with the marks that combine with it. The two letters of a flag stay together."""
    cluster = ""
    for character in text:
        joins = columns(character) == 0 or columns(cluster + character) == columns(cluster)
        if cluster and (joins or (len(cluster) == 1 and _is_flag(cluster) and _is_flag(character))):
            cluster += character
        else:
            if cluster:
                yield cluster
            cluster = character
    if cluster:
        yield cluster


def _is_flag(letter: str) -> bool:
    return _FIRST_FLAG <= letter <= _LAST_FLAG


def left(text: str, width: int) -> str:
    """The text, filled with blanks on the right up to ``width`` columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """The text, filled with blanks on the left up to ``width`` columns."""
    return " " * (width - columns(text)) + text
