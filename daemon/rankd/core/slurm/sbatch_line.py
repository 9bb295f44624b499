"""Reads the words of an ``#SBATCH`` line as sbatch does: getopt's forms of options and values. Pure.

``--time=5``, ``--time 5``, ``--tim=5`` (a beginning that fits one option only), ``-t5``, ``-t 5``, ``-Ht5``.
Source: sbatch(1) and getopt_long(3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from rankd.core.near_name import cut, near_name


class Takes(Enum):
    """Whether an option has a value."""

    NOTHING = "nothing"
    VALUE = "value"
    MAYBE = "maybe"
    """Only as ``--option=value``."""


class Spelling(NamedTuple):
    """How an option is written: its long name, its letter if it has one, and whether it has a value."""

    name: str
    letter: str = ""
    takes: Takes = Takes.VALUE


class Given(NamedTuple):
    """An option of a line, by its long name. ``value`` is None if it has none."""

    name: str
    value: str | None


class UnknownOption(ValueError):
    """sbatch has no such option, or several that begin so."""


def read_options(
    words: Sequence[str], spellings: Mapping[str, Spelling], unknown: Callable[[UnknownOption], None]
) -> Iterator[Given]:
    """The options of a line. ``spellings``: all options by their long names.

    An option that sbatch does not have goes to ``unknown``. The words behind it that may be its value are left out.

    Raises:
        ValueError: a word is not an option, or a value is missing or too many.
    """
    letters = {one.letter: one for one in spellings.values() if one.letter}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if not word.startswith("-") or word in ("-", "--"):
            raise ValueError(_not_an_option(word))
        try:
            is_long = word.startswith("--")
            yield from [_long(word[2:], rest, spellings)] if is_long else _short(word[1:], rest, letters)
        except UnknownOption as error:
            unknown(error)
            while rest and not rest[-1].startswith("-"):
                rest.pop()


def _not_an_option(word: str) -> str:
    if word in ("hetjob", "packjob"):
        return f"'{word}': rankd has no jobs of several parts; submit a job for each part, or one with -N"
    return f"'{cut(word)}' is not an option"


def _long(text: str, rest: list[str], spellings: Mapping[str, Spelling]) -> Given:
    name, equals, value = text.partition("=")
    found = _named(name, spellings)
    if found.takes is Takes.NOTHING and equals:
        raise ValueError(f"--{found.name} takes no value")
    if found.takes is Takes.VALUE and not equals:
        return Given(found.name, _next(f"--{found.name}", rest))
    return Given(found.name, value if equals else None)


def _short(text: str, rest: list[str], letters: Mapping[str, Spelling]) -> Iterator[Given]:
    while text:
        letter, text = text[0], text[1:]
        if letter not in letters:
            raise UnknownOption(f"sbatch has no option -{cut(letter)}")
        found = letters[letter]
        if found.takes is Takes.VALUE:
            yield Given(found.name, text or _next(f"-{letter}", rest))
            return
        yield Given(found.name, None)


def _next(option: str, rest: list[str]) -> str:
    if not rest:
        raise ValueError(f"{option} needs a value")
    return rest.pop()


def _named(name: str, spellings: Mapping[str, Spelling]) -> Spelling:
    if name in spellings:
        return spellings[name]
    fitting = [one for one in spellings if one.startswith(name)] if name else []
    if len(fitting) == 1:
        return spellings[fitting[0]]
    if fitting:
        raise UnknownOption(f"--{cut(name)} may mean --{', --'.join(sorted(fitting))}")
    similar = near_name(name, spellings)
    hint = f"; did you mean --{similar}?" if similar else ""
    raise UnknownOption(f"sbatch has no option --{cut(name)}{hint}")
