"""Batch scripts: reading the file that is submitted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.admission.script_check import MARK, MOST_BYTES, check_script
from rankd.core.errors import Refused
from rankd.core.near_name import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDARD_INPUT = "-"


_HEAD = 4_096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INTERPRETERS = {
    ".bash": "/bin/bash",
    ".py": "/usr/bin/env python3",
    ".R": "/usr/bin/env Rscript",
    ".pl": "/usr/bin/env perl",
    ".jl": "/usr/bin/env julia",
}
WRAPPED = "wrap"
"""The name of a script that consists of a line, as with sbatch."""


class Script(NamedTuple):
    """A script's text, the name that is shown for it, and its arguments. ``is_wrapped``: it is the line of --wrap."""

    text: str
    name: str
    arguments: Sequence[str]
    is_wrapped: bool = False


def wrapped(line: str) -> Script:
    """The script that consists of this line for the shell.

    Raises:
        Refused: ``bad_script``, ``script_too_large``: it is not a script that can be submitted.
    """
    text = f"#!/bin/sh\n{line}\n"
    check_script(text, MOST_BYTES)
    return Script(text, WRAPPED, (), is_wrapped=True)


def read_script(words: Sequence[str]) -> Script:
    """The script that the first word names, ``-`` for standard input. The others are its arguments.

    Raises:
        Refused: ``bad_script``, ``script_too_large``: it is not a script that can be submitted.
    """
    file = words[0]
    try:
        content = _content(file)
    except OSError as error:
        raise _no_script(words, f"can't read the script '{cut(file)}': {error.strerror}") from None
    if len(content) > MOST_BYTES:
        message = f"'{cut(file)}' has over {MOST_BYTES} bytes, the largest script; put large parts into files"
        raise Refused("script_too_large", message, "script", status=413)
    if not content.startswith(MARK.encode()):
        raise _without_mark(words, content)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"'{cut(file)}' is not text in UTF-8 (line {line}); convert it, for example with iconv"
        raise Refused("bad_script", message, "script") from None
    check_script(text, MOST_BYTES)
    return Script(text, "stdin" if file == STANDARD_INPUT else file.rpartition("/")[2], words[1:])


def missing_interpreter(text: str) -> str | None:
    """What to say about a script's interpreter that this machine does not have; None if it has it, or may have it."""
    words = text.partition("\n")[0].removeprefix(MARK).split()
    if not words or not words[0].startswith("/") or Path(words[0]).exists():
        return None
    return (
        f"line 1: there is no {cut(words[0])} on this machine; the job fails on nodes without it, so check the first"
        " line of the script"
    )


def _content(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def _no_script(words: Sequence[str], message: str) -> Refused:
    if words[0] == STANDARD_INPUT:
        return Refused("bad_script", message, "script")
    return Refused("bad_script", f"{message}; to run a command, write: rankd submit -- {_shown(words)}", "script")


def _without_mark(words: Sequence[str], content: bytes) -> Refused:
    """What to do about a file that does not begin with ``#!``: it is a program, or lacks the line."""
    file = words[0]
    if b"\0" in content[:_HEAD]:
        command = _shown([file if "/" in file else f"./{file}", *words[1:]])
        message = f"'{cut(file)}' is a program, not a script; write: rankd submit -- {command}"
        return Refused("bad_script", message, "script")
    if content.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(MARK.encode()):
        message = f"'{cut(file)}' has empty lines, blanks or a byte order mark before its #!; remove them"
        return Refused("bad_script", message, "script")
    interpreter = _INTERPRETERS.get(Path(file).suffix, "/bin/sh")
    message = (
        f"'{cut(file)}' does not begin with #!, so no program is known that can run it;"
        f" add a first line such as #!{interpreter}"
    )
    if file != STANDARD_INPUT:
        program = interpreter.rpartition("/")[2].removeprefix("env ")
        message += f", or write: rankd submit -- {program} {_shown(words)}"
    return Refused("bad_script", message, "script")


def _shown(words: Sequence[str]) -> str:
    import shlex

    return cut(shlex.join(words))
