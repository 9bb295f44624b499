"""Errors about options, in the words of rankd in place of argparse's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rankd.core.near_name import cut, near_name

_OURS = (
    (r"invalid int value: (.*)", r"\1 is not a whole number"),
    (r"invalid float value: (.*)", r"\1 is not a number"),
    (r"^the following arguments are required: (.*)", r"\1 is missing"),
    (r"^argument ([^:]*): expected one argument$", r"\1 needs a value"),
    (r"^argument ([^:]*): expected at least one argument$", r"\1 needs a value"),
    (r"^argument ([^:]*): ignored explicit argument (.*)$", r"\1 takes no value, but \2 follows it"),
    (r"^argument ([^:]*): not allowed with argument (.*)$", r"\1 and \2 can't be given together"),
)
"""Messages of argparse, and ours in their place."""


def in_plain_words(message: str) -> str:
    """A message of argparse in rankd's words.

    >>> in_plain_words("argument -t/--time: expected one argument")
    '-t/--time needs a value'
    """
    for argparses, ours in _OURS:
        message = re.sub(argparses, ours, message)
    return message


def unknown_words(words: Sequence[str], options: Iterable[str]) -> str:
    """What is wrong with words that none of these options took.

    >>> unknown_words(["--tiem=5"], ["-t", "--time"])
    'there is no option --tiem (did you mean --time?)'
    """
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return f"there is no place for '{cut(words[0])}'"
    if not option.startswith("--"):
        return f"there is no option {cut(option)}"
    known = [name[2:] for name in options if name.startswith("--")]
    near = min((name for name in known if name.startswith(option[2:])), key=len, default=None)
    near = near or near_name(option[2:], known)
    hint = f" (did you mean --{near}?)" if near is not None else ""
    return f"there is no option {cut(option)}{hint}"
