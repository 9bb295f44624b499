"""Columns of looking commands: their fields by letter, ``-o`` formats in Slurm's syntax, ``-S`` sorting.

``%8i`` is a field 8 columns wide; longer text is cut. ``%.8i`` is the same, aligned to the right. ``%i`` is as wide as
needed. ``%%`` is a percent sign. Other text between fields is copied. Where only blanks separate the fields, a field
without a value is ``-``, so that the others keep their places.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.cli.common.screen import cut, left, right
from rankd.cli.common.table import EMPTY, Column
from rankd.core.errors import Refused
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rankd.store.engine.reading import Row

_FIELD = re.compile(r"%((?P<percent>%)|((?P<right>\.)(?=[0-9]))?(?P<width>[0-9]{0,3})(?P<letter>[a-zA-Z]))")
"""As in squeue(1): ``%[[.]size]type``."""
_OTHER = re.compile(r"%[^a-zA-Z%]*.?", re.DOTALL)


class Field(NamedTuple):
    """A column: its header, the value to sort by, and the text to show (by default that value)."""

    header: str
    value: Callable[[Row], Any]
    text: Callable[[Row], str] | None = None
    numeric: bool = False

    def shown(self, row: Row) -> str:
        """The text of the column, on one line."""
        if self.text is not None:
            return printable(self.text(row))
        value = self.value(row)
        return "" if value is None else printable(str(value))

    def column(self) -> Column:
        """The column in the form that tables need."""
        return Column(self.header, self.numeric)


def column_of(name: str, header: str, *, numeric: bool = False, none: str = "") -> Field:
    """A field that shows an entry of the row unchanged. ``none`` is shown for a missing value."""

    def text(row: Row) -> str:
        value = row.get(name)
        return none if value is None else str(value)

    return Field(header, lambda row: row.get(name), text, numeric)


def table_rows(fields: Sequence[Field], rows: Sequence[Row]) -> list[list[str]]:
    """All cells as text."""
    return [[field.shown(row) for field in fields] for row in rows]


def formatted(spec: str, fields: Mapping[str, Field], rows: Sequence[Row], *, header: bool) -> list[str]:
    """The lines of a table in a ``-o`` format.

    Raises:
        Refused: ``usage``: an unknown letter, or no field at all.
    """
    _check_percents(spec, fields)
    used = [(match, _field(fields, match["letter"])) for match in _FIELD.finditer(spec) if match["letter"]]
    if not used:
        raise Refused("usage", f"'{spec}' names no field; known: {_known(fields)}", "format")
    empty = "" if _FIELD.sub("", spec).strip() else EMPTY
    lines = [_line(spec, [_cell(match, field.header) for match, field in used])] if header else []
    lines += [_line(spec, [_cell(match, field.shown(row) or empty) for match, field in used]) for row in rows]
    return lines


def letters_of(spec: str) -> set[str]:
    """The letters of the fields that a ``-o`` format names.

    >>> sorted(letters_of("%10N %% %.5G"))
    ['G', 'N']
    """
    return {match["letter"] for match in _FIELD.finditer(spec) if match["letter"]}


def _check_percents(spec: str, fields: Mapping[str, Field]) -> None:
    """Check that each percent sign begins a field.

    Raises:
        Refused: ``usage``: one does not.
    """
    if other := _OTHER.search(_FIELD.sub("", spec)):
        message = (
            f"'{other[0]}' is not a field; write %i, %8i for 8 columns, %.8i for 8 columns aligned to the right, or %%"
            f" for a percent sign; known: {_known(fields)}"
        )
        raise Refused("usage", message, "format")


def _line(spec: str, cells: list[str]) -> str:
    left = iter(cells)
    return _FIELD.sub(lambda match: "%" if match["percent"] else next(left), spec)


def _cell(match: re.Match[str], text: str) -> str:
    if not match["width"]:
        return text
    width = int(match["width"])
    shown = cut(text, width, end="")
    return right(shown, width) if match["right"] else left(shown, width)


def ordered(spec: str, fields: Mapping[str, Field], rows: list[Row]) -> list[Row]:
    """Rows in the order of a ``-S`` list: letters of fields, with ``-`` before a descending one. None comes last.

    Raises:
        Refused: ``usage``: an unknown letter.
    """
    keys = [part.strip() for part in spec.split(",") if part.strip()]
    for key in reversed(keys):
        field = _field(fields, key.lstrip("+-"), sign="")
        present = [row for row in rows if field.value(row) is not None]
        absent = [row for row in rows if field.value(row) is None]
        present.sort(key=field.value, reverse=key.startswith("-"))
        rows = present + absent
    return rows


def _field(fields: Mapping[str, Field], letter: str, sign: str = "%") -> Field:
    """The field of a letter. ``sign``: what stands before letters where this one was written."""
    if letter not in fields:
        raise Refused("usage", f"unknown field '{sign}{letter}'; known: {_known(fields, sign)}", "format")
    return fields[letter]


def _known(fields: Mapping[str, Field], sign: str = "%") -> str:
    return ", ".join(f"{sign}{letter} {field.header}" for letter, field in fields.items())
