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

_OPTIONS = {
    "array_limit": "--array-limit",
    "begin_at": "--begin",
    "cancel_if_unmet": "--kill-on-invalid-dep",
    "depends_on": "--dependency",
    "fixed_priority": "--fix-priority",
    "min_nodes": "--nodes",
    "open_mode": "--open-mode",
    "priority_class": "--class",
    "time_limit_s": "--time",
}
"""The options of fields of a job whose names are no words. The others are named alike, or are plain words."""


def in_plain_words(message: str) -> str:
    """A message of argparse in rankd's words.

    >>> in_plain_words("argument -t/--time: expected one argument")
    '-t/--time needs a value'
    """
    for argparses, ours in _OURS:
        message = re.sub(argparses, ours, message)
    return message


def with_options(message: str) -> str:
    """A message about a job's request that names options in place of fields.

    >>> with_options("depends_on names job 99, which does not exist")
    '--dependency names job 99, which does not exist'
    """
    return re.sub(rf"(?<![\w.-])(?:{'|'.join(_OPTIONS)})(?![\w-])", lambda found: _OPTIONS[found[0]], message)


def unknown_words(words: Sequence[str], options: Iterable[str]) -> str:
    """What is wrong with words that none of these options took.

    >>> unknown_words(["--tiem=5"], ["-t", "--time"])
    'there is no option --tiem (did you mean --time?)'
    """
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return f"takes no argument '{cut(words[0])}'"
    if not option.startswith("--"):
        return f"there is no option {cut(option)}"
    known = [name[2:] for name in options if name.startswith("--")]
    near = min((name for name in known if name.startswith(option[2:])), key=len, default=None)
    near = near or near_name(option[2:], known)
    hint = f" (did you mean --{near}?)" if near is not None else ""
    return f"there is no option {cut(option)}{hint}"
