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


class Script(NamedTuple):
    """A script's text, the name that is shown for it, and its arguments."""

    text: str
    name: str
    arguments: Sequence[str]


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
        raise _no_script(words, f"'{cut(file)}' is not a script, since it does not begin with #!")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"'{cut(file)}' is not text in UTF-8 (line {line}); convert it, for example with iconv"
        raise Refused("bad_script", message, "script") from None
    check_script(text, MOST_BYTES)
    return Script(text, "stdin" if file == STANDARD_INPUT else file.rpartition("/")[2], words[1:])


def _content(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def _no_script(words: Sequence[str], message: str) -> Refused:
    if words[0] == STANDARD_INPUT:
        return Refused("bad_script", message, "script")
    import shlex

    command = cut(shlex.join(words))
    return Refused("bad_script", f"{message}; to run a command, write: rankd submit -- {command}", "script")
