"""Reads documents and prints answers, for ``evaluate``, ``class check`` and ``config check``.

The input is one document in a file, or on standard input (``-``). With ``--lines`` it is one document per line, with
one answer per line in the same order. The answer to a bad document is the list of its errors.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from rankd.core.errors import ConfigurationError, Problem, Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

T = TypeVar("T")

BAD_DOCUMENT = 2


def add_lines(parser: argparse.ArgumentParser) -> None:
    """``--lines``."""
    parser.add_argument(
        "--lines", metavar="FILE", help="read one document per line, print one answer per line; - is standard input"
    )


def read_bytes(path: str) -> bytes:
    """A file's content; ``-`` is standard input.

    Raises:
        Refused: ``usage``: it can't be read.
    """
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 10 ms at start
            return file.read()
    except OSError as error:
        raise Refused("usage", f"{path} can't be read: {error.strerror}") from None


def answer_one(path: str, answer: Callable[[bytes], T], show: Callable[[T], None]) -> int:
    """Answer one document. Its errors go to standard error, one line each. Returns the exit status."""
    data = read_bytes(path)
    try:
        answered = answer(data)
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"{problem.path}: {' '.join(problem.message.split())}", file=sys.stderr)
        return BAD_DOCUMENT
    show(answered)
    return 0


def answer_lines(path: str, answer: Callable[[bytes], object]) -> int:
    """Answer one document per line. Returns the exit status."""
    import msgspec

    out = sys.stdout.buffer
    for line in _lines(path):
        try:
            answered = answer(line)
        except ConfigurationError as error:
            answered = {"errors": [fault(problem) for problem in error.problems]}
        out.write(msgspec.json.encode(answered) + b"\n")
    out.flush()
    return 0


def fault(problem: Problem) -> dict[str, str]:
    """A problem of a document: where and what."""
    return {"path": problem.path, "message": problem.message}


def _lines(path: str) -> Iterator[bytes]:
    try:
        if path == "-":
            yield from sys.stdin.buffer
            return
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            yield from file
    except OSError as error:
        raise Refused("usage", f"{path} can't be read: {error.strerror}") from None


def decode(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """A JSON document of any shape.

    Raises:
        ConfigurationError: it is not JSON.
    """
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError([Problem(path="$", message=f"this is not JSON: {error}")]) from None


def print_answer(answer: object, *, compact: bool) -> None:
    """Print as JSON, on one line or indented."""
    import msgspec

    text = msgspec.json.encode(answer)
    print((text if compact else msgspec.json.format(text, indent=2)).decode())
