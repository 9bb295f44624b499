"""``rankd class``: priority classes. So far ``check``, which judges an operation on a table of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.document import add_lines, answer_lines, answer_one, decode, print_answer
from rankd.cli.option import add_command
from rankd.core.errors import ConfigurationError, Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.option import Subparsers
    from rankd.core.admission.class_check import CheckAnswer


def add_parser(subparsers: Subparsers) -> None:
    """Add ``class check``."""
    parser = add_command(subparsers, "class", run, "Priority classes.")
    verbs = parser.add_subparsers(required=True, metavar="check")
    text = "Say whether a class may be created, updated or deleted, and how the table looks afterwards."
    check = add_command(verbs, "check", run, text)
    check.add_argument("file", nargs="?", metavar="FILE", help="existing classes and an operation, as JSON; or -")
    check.add_argument("--json", action="store_true", help="JSON on one line")
    add_lines(check)


def run(arguments: argparse.Namespace) -> int:
    """Judge and print."""
    if (arguments.file is None) == (arguments.lines is None):
        raise Refused("usage", "give FILE, or --lines FILE", "file")
    if arguments.lines is not None:
        return answer_lines(arguments.lines, _check)
    return answer_one(arguments.file, _check, lambda answer: print_answer(answer, compact=arguments.json))


def _check(data: bytes) -> CheckAnswer:
    from rankd.core.admission.class_check import MalformedAnswer, check

    answer = check(decode(data))
    if isinstance(answer, MalformedAnswer):
        raise ConfigurationError(list(answer.errors))
    return answer
