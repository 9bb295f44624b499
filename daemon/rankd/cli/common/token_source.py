"""Where the text of an invitation comes from: an argument, a file, standard input, or the terminal.

Other users of a machine can see arguments in the list of processes. So a file or standard input is the better way.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankd.core.errors import Refused, usable

if TYPE_CHECKING:
    from pathlib import Path

MOST_CHARACTERS = 64 * 2**10
STANDARD_INPUT = "-"


def read_token_file(path: Path) -> str:
    """The text in a file; ``-`` means standard input.

    Raises:
        Refused: ``bad_path``, ``bad_token``: it can't be read.
    """
    if str(path) == STANDARD_INPUT:
        return sys.stdin.read(MOST_CHARACTERS)
    try:
        with usable(path, "token"), path.open(encoding="ascii") as opened:
            return opened.read(MOST_CHARACTERS)
    except ValueError:
        raise Refused("bad_token", f"{path} does not hold the token of an invitation", "token") from None


def ask_for_token() -> str:
    """The text from standard input. On a terminal, it is asked for and not shown."""
    if not sys.stdin.isatty():
        return sys.stdin.read(MOST_CHARACTERS)
    from getpass import getpass

    return getpass("The token of your invitation (it is not shown): ")
