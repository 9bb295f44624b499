"""How many records a command shows, and the message if there are more."""

from __future__ import annotations

import sys

EVERYTHING = 2**31 - 1
"""The limit of a command without ``--limit``."""

MOST_BY_BUS = 10_000
"""Jobs that are fetched over the bus, in pages, if no limit is given."""

PAGE = 10_000
"""Jobs that are fetched at a time by a command that needs all of them."""


def say_cut(shown: int, total: int, which: str) -> None:
    """Print that ``shown`` of ``total`` jobs are shown, if there are more. ``which``: ``newest`` or ``next``."""
    if total > shown:
        what = f"only the {which} {shown:,} of {total:,} jobs are shown"
        print(f"rankd: {what}; give --limit N, or a filter", file=sys.stderr)
