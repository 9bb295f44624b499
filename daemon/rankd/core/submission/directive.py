"""Directives: the lines of a batch script that give options of its submission. Pure.

They are comments of the form ``#RANKD --mem 4G`` or ``#SBATCH --mem=4G`` before the first command. The words of such a
line are split like those of a shell, without any expansion. What the options mean is not decided here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rankd.core.errors import Refused
from rankd.core.near_name import cut

MOST_DIRECTIVES = 1_000
"""Lines with directives in one script."""
_KINDS: tuple[Literal["RANKD", "SBATCH"], ...] = ("RANKD", "SBATCH")


class Directive(NamedTuple):
    """The words of a line. ``line`` counts from 1."""

    kind: Literal["RANKD", "SBATCH"]
    line: int
    words: list[str]


def read_directives(script: str) -> list[Directive]:
    """The directives of a script, in their order. They end at the first line that is neither empty nor a comment.

    Raises:
        Refused: ``bad_directive``: a quote is not closed, or there are too many lines; the message names the line.
    """
    found: list[Directive] = []
    for number, line in enumerate(script.split("\n"), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if (kind := _kind_of(line)) is None:
            continue
        if len(found) == MOST_DIRECTIVES:
            raise bad_directive(number, f"a script has at most {MOST_DIRECTIVES} lines with options")
        try:
            words = split_words(line[len(kind) + 1 :])
        except ValueError as error:
            raise bad_directive(number, f"{error} in '{cut(text)}'") from None
        if words:
            found.append(Directive(kind, number, words))
    return found


def bad_directive(line: int, message: str) -> Refused:
    """The error about a line of a script."""
    return Refused("bad_directive", f"line {line}: {message}", "script")


def _kind_of(line: str) -> Literal["RANKD", "SBATCH"] | None:
    for kind in _KINDS:
        if line.startswith(f"#{kind}") and (len(line) == len(kind) + 1 or line[len(kind) + 1].isspace()):
            return kind
    return None


def split_words(text: str) -> list[str]:
    r"""The words of a line, as a shell would split it: quotes, backslashes, and a comment after ``#``.

    >>> split_words(r'''-J "my job" --comment='a # b' -o a\ b.out  # the rest''')
    ['-J', 'my job', '--comment=a # b', '-o', 'a b.out']

    Raises:
        ValueError: a quote is not closed, or nothing follows a backslash.
    """
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        if character == "#" and word is None:
            break
        word = [] if word is None else word
        if character in "'\"":
            at = _quoted(text, at, character, word)
        elif character == "\\":
            if at == len(text):
                raise ValueError("nothing follows the backslash")
            word.append(text[at])
            at += 1
        else:
            word.append(character)
    return words if word is None else [*words, "".join(word)]


def _quoted(text: str, at: int, quote: str, word: list[str]) -> int:
    """Add what stands in quotes to the word; returns the place behind the closing one."""
    while at < len(text):
        character = text[at]
        at += 1
        if character == quote:
            return at
        if character == "\\" and quote == '"' and text[at : at + 1] in ('"', "\\"):
            character = text[at]
            at += 1
        word.append(character)
    raise ValueError("a quote is not closed")
