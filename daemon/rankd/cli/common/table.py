"""Writing tables: aligned plain text for programs, a bold header and the terminal's width for people, JSON.

An empty cell is written as ``-``, so that the fields of every line keep their places. Text is cut only if the output
is a terminal, or if a column has a width.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.cli.common.screen import BOLD, PLAIN, cut, left, right
from rankd.cli.common.screen import columns as columns_of
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LEAST_WIDTH = 8
"""No column is cut to less than this."""
FORMULAS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""The first characters of formulas, also of full width."""
EMPTY = "-"
"""What stands in an empty cell."""


class Column(NamedTuple):
    """A column's header, and whether it holds numbers (aligned to the right).

    ``width``: its fixed width; longer text is cut and ends with ``+``, as in sacct. None: as wide as needed.
    """

    header: str
    numeric: bool = False
    width: int | None = None


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Indented JSON on standard output."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def separated(cells: Iterable[str]) -> str:
    r"""A record on one line, with ``|`` between its fields; a ``|`` in a field is written ``\u007c``.

    >>> separated(["a|b", "c"])
    'a\\u007cb|c'
    """
    return "|".join(printable(cell).replace("|", "\\u007c") for cell in cells)


def comma_separated(cells: Iterable[str]) -> str:
    """A record of CSV (RFC 4180): cells with commas or quotes are quoted. Control characters are escaped.

    >>> comma_separated(["a,b", "c"])
    '"a,b",c'
    """
    shown = [printable(cell) for cell in cells]
    return ",".join('"' + cell.replace('"', '""') + '"' if set(cell) & {",", '"'} else cell for cell in shown)


def no_formula(text: str) -> str:
    """A text of a user's as a cell of a spreadsheet, which would compute one that begins like a formula.

    Such a text gets an apostrophe before it, as spreadsheets themselves mark text.

    >>> [no_formula(text) for text in ("=1+1", " @SUM(A1)", "-", "train")]
    ["'=1+1", "' @SUM(A1)", "'-", 'train']
    """
    return f"'{text}" if text.lstrip()[:1] in FORMULAS else text


def print_separated(
    header: Sequence[str] | None, rows: Sequence[Sequence[str]], *, csv_texts: Collection[int] | None
) -> None:
    """Write records to standard output: CSV, in which the cells at ``csv_texts`` are texts; None: ``|`` between fields.

    In CSV, texts can't become formulas. Numbers stay as they are.
    """
    form = separated if csv_texts is None else comma_separated
    texts = csv_texts or ()
    if header is not None:
        print(form(header))
    for cells in rows:
        print(form(no_formula(cell) if place in texts else cell for place, cell in enumerate(cells)))


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, header: bool = True) -> None:
    """Write a table to standard output."""
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in lines(columns, rows, header=header, terminal_width=width, colour=_wants_colour()):
        print(line)


def _wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    header: bool = True,
    terminal_width: int | None = None,
    colour: bool = False,
) -> list[str]:
    """The lines of a table, one per row. Line breaks in cells are escaped. Cut to ``terminal_width`` if it is given."""
    headers = [column.header for column in columns]
    safe = [[printable(cell) or EMPTY for cell in row] for row in rows]
    shown = [headers, *safe] if header else safe
    widths = [
        max((columns_of(row[place]) for row in shown), default=0) if column.width is None else column.width
        for place, column in enumerate(columns)
    ]
    if terminal_width is not None:
        widths = _fitted(widths, columns, terminal_width)
    written = [_line(row, columns, widths) for row in shown]
    if header and colour:
        written[0] = f"{BOLD}{written[0]}{PLAIN}"
    return written


def _fitted(widths: list[int], columns: Sequence[Column], room: int) -> list[int]:
    """Narrow the widest text columns until the line fits or all are at the least width.

    Numbers are never cut. Columns of a fixed width stay as they are.
    """
    fitted = list(widths)
    texts = [place for place, column in enumerate(columns) if not column.numeric and column.width is None]
    while texts and sum(fitted) + len(fitted) - 1 > room:
        widest = max(texts, key=lambda place: fitted[place])
        if fitted[widest] <= LEAST_WIDTH:
            break
        fitted[widest] -= 1
    return fitted


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = []
    for text, column, width in zip(row, columns, widths, strict=True):
        shown = cut(text, width) if column.width is None else cut(text, width, end="+")
        cells.append(right(shown, width) if column.numeric else left(shown, width))
    return " ".join(cells).rstrip()
