"""Tables that ``sacctmgr -P``, ``sacctmgr -p`` and ``sshare -P`` print: a header, and cells between bars.

Columns may have any order. The number of an account's leading blanks is its depth in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.core.slurm.reading import NOT_SET, Reading

ACCOUNT = "account"


class PrintedRow(NamedTuple):
    """One line: its number from 1, the depth of its account, its cells by column, stripped."""

    line: int
    depth: int
    cells: dict[str, str]

    def get(self, *columns: str) -> str:
        """The cell of the first of these columns that the table has; empty if it has none of them."""
        return next((self.cells[column] for column in columns if column in self.cells), "")


class PrintedTable(NamedTuple):
    """The rows of a table. ``titles``: the titles of the header by canonical name (lower case, no blanks)."""

    titles: dict[str, str]
    rows: list[PrintedRow]

    def left(self, row: PrintedRow, used: Sequence[str]) -> list[str]:
        """The values in other columns than ``used``, as ``Title=value``."""
        return [
            f"{self.titles[column]}={value}"
            for column, value in row.cells.items()
            if column not in used and value.lower() not in NOT_SET
        ]


def canonical(title: str) -> str:
    """The name of a column without the parts that differ between versions of Slurm.

    >>> canonical("Def QOS")
    'defqos'
    """
    return title.strip().lower().replace(" ", "").replace("_", "")


def parse_table(text: str, reading: Reading) -> PrintedTable:
    """The rows of the table. Lines with another number of cells than the header are refused."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        reading.refuse(0, "has no lines")
        return PrintedTable({}, [])
    header = [canonical(title) for title in lines[0][1].split("|")]
    titles = {canonical(title): title.strip() for title in reversed(lines[0][1].split("|")) if title.strip()}
    rows = []
    for number, line in lines[1:]:
        cells = line.split("|")
        if len(cells) != len(header):
            reading.refuse(number, f"has {len(cells)} cells, but the header has {len(header)}; is the file whole?")
            continue
        named = {title: cell.strip() for title, cell in reversed(list(zip(header, cells, strict=True))) if title}
        rows.append(PrintedRow(number, _depth(header, cells), dict(reversed(named.items()))))
    return PrintedTable(titles, rows)


def _depth(header: Sequence[str], cells: Sequence[str]) -> int:
    if ACCOUNT not in header:
        return 0
    cell = cells[header.index(ACCOUNT)]
    return len(cell) - len(cell.lstrip(" "))
