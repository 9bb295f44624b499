"""Rows from outside as typed inputs. All faults of all rows are reported, and a single fault refuses the whole input.

The last good input as a whole is better than a part of the new one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from rankd.core.adapter.source import Cell, Row
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.setting import AdapterSettings

Kind = Literal["associations", "usage", "qos", "groups", "factor"]

MOST_PROBLEMS = 20
_LARGEST = 2**53

_COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "associations": (("account",), ("user", "parent", "shares", "priority", "default")),
    "usage": (("account", "user", "usage"), ("usage_at",)),
    "qos": (("name",), ("priority", "factor", "usage_factor")),
    "groups": (("group", "user"), ()),
    "factor": (("value",), ("job", "account", "user")),
}
"""The required columns and the optional columns of each input."""
_TEXTS = frozenset({"account", "user", "parent", "name", "group"})
_TRUE = frozenset({"true", "yes", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "0", "f", "n"})


class AssociationRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account (``user`` None) or a user in an account. Values that are None keep those of the configuration."""

    account: str
    user: str | None = None
    parent: str | None = None
    shares: float | Literal["parent"] | None = None
    priority: int | None = None
    default: bool | None = None


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage of a user in an account, in billing units times seconds, at ``usage_at``.

    ``usage_at``: UTC seconds; None means the time of the reading.
    """

    account: str
    user: str
    usage: float
    usage_at: float | None = None


class QosRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A QoS. Values that are None keep those of the configuration."""

    name: str
    priority: int | None = None
    factor: float | None = None
    usage_factor: float | None = None


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user who is in a group."""

    group: str
    user: str


class FactorRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A factor's value for a job, for a user (in one account or in all), or for all users of an account."""

    value: float
    job: int | None = None
    account: str | None = None
    user: str | None = None


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows of one adapter. They are of one kind; the other lists are empty."""

    kind: Kind
    factor: str | None = None
    associations: tuple[AssociationRow, ...] = ()
    usage: tuple[UsageRow, ...] = ()
    qos: tuple[QosRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    values: tuple[FactorRow, ...] = ()

    def __len__(self) -> int:
        """How many rows."""
        return sum(len(rows) for rows in (self.associations, self.usage, self.qos, self.groups, self.values))


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a factor's values."""

    lowest: float = 0.0
    highest: float = 1.0


def checked_input(rows: Iterable[Row], settings: AdapterSettings, allowed: Range) -> Input:
    """The rows as an input of the kind in the settings. ``allowed``: the range of a factor's values.

    Raises:
        ConfigurationError: with the first 20 faults of the rows, and the number of others.
    """
    table = _CheckedRows(settings, allowed)
    for number, row in enumerate(rows, start=1):
        table.add(number, row)
    return table.input()


class _CheckedRows:
    """The rows so far, and what was wrong with them."""

    def __init__(self, settings: AdapterSettings, allowed: Range) -> None:
        self._settings = settings
        self._allowed = allowed
        self._needed, more = _COLUMNS[settings.input]
        self._known = frozenset((*self._needed, *more))
        self._theirs = {theirs: ours for ours, theirs in settings.columns.items()}
        self._seen: dict[tuple[object, ...], int] = {}
        self._rows: list[dict[str, object]] = []
        self._problems: list[Problem] = []
        for ours in settings.columns:
            if ours not in self._known:
                self._refuse("columns", f"'{ours}' is not a column of {settings.input}; known: {self._names()}")

    def add(self, number: int, row: Row) -> None:
        before = len(self._problems)
        cells = self._renamed(number, row)
        typed = {column: self._value(number, column, cell) for column, cell in cells.items()}
        typed = {column: value for column, value in typed.items() if value is not None}
        if len(self._problems) > before:
            return
        missing = [column for column in self._needed if column not in typed]
        if missing:
            self._refuse(f"row {number}", f"'{missing[0]}' is needed; there are: {', '.join(map(str, row)) or 'none'}")
        elif self._settings.input == "factor" and not _names_one(typed):
            self._refuse(f"row {number}", "name a job; or an account, a user, or both")
        else:
            self._check_once(number, typed)
            self._rows.append(typed)

    def input(self) -> Input:
        kind = self._settings.input
        if not self._rows and not self._problems and kind in ("associations", "qos"):
            self._refuse("", "there are no rows; the last ones stay")
        if self._problems:
            more = len(self._problems) - MOST_PROBLEMS
            shown = self._problems[:MOST_PROBLEMS]
            raise ConfigurationError([*shown, Problem(path="", message=f"and {more} more")] if more > 0 else shown)
        field = "values" if kind == "factor" else kind
        return msgspec.convert({"kind": kind, "factor": self._settings.factor, field: self._rows}, Input)

    def _refuse(self, path: str, message: str) -> None:
        self._problems.append(Problem(path=path, message=message))

    def _names(self) -> str:
        return ", ".join(column for columns in _COLUMNS[self._settings.input] for column in columns)

    def _renamed(self, number: int, row: Row) -> dict[str, Cell]:
        cells: dict[str, Cell] = {}
        for theirs, cell in row.items():
            ours = self._theirs.get(theirs) or (theirs if theirs not in self._settings.columns else None)
            if ours in self._known:
                cells[str(ours)] = cell
            elif not self._theirs:
                message = f"unknown column '{theirs}'; known: {self._names()} (set `columns` to rename columns)"
                self._refuse(f"row {number}", message)
        return cells

    def _value(self, number: int, column: str, cell: Cell) -> object:
        """The cell as a value of its column's type; None if the cell is empty."""
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return None
        if column in _TEXTS:
            return self._text(number, column, cell)
        if column == "default":
            return self._flag(number, cell)
        if column == "shares" and isinstance(cell, str) and cell.strip().lower() == "parent":
            return "parent"
        return self._number(number, column, cell)

    def _text(self, number: int, column: str, cell: Cell) -> str | None:
        if isinstance(cell, str) or (isinstance(cell, int) and not isinstance(cell, bool)):
            text = str(cell).strip()
            if text.isprintable():
                return text
        self._refuse(f"row {number}.{column}", f"{cell!r} is not a name")
        return None

    def _flag(self, number: int, cell: Cell) -> bool | None:
        word = str(cell).strip().lower()
        if word in _TRUE | _FALSE:
            return word in _TRUE
        self._refuse(f"row {number}.default", f"'{cell}' is not true or false")
        return None

    def _number(self, number: int, column: str, cell: Cell) -> float | int | None:
        try:
            value = math.nan if isinstance(cell, bool) or cell is None else float(cell)
        except (ValueError, TypeError, OverflowError):
            value = math.nan
        lowest, highest = self._bounds(column)
        if not lowest <= value <= highest or math.isinf(value):
            wanted = f"a number from {lowest:g} to {highest:g}" if highest < _LARGEST else _AT_LEAST.get(lowest)
            self._refuse(f"row {number}.{column}", f"'{cell}' is not {wanted or 'a finite number'}")
            return None
        if column in ("priority", "job"):
            if value.is_integer():
                return int(value)
            self._refuse(f"row {number}.{column}", f"'{cell}' is not a whole number")
            return None
        return value

    def _bounds(self, column: str) -> tuple[float, float]:
        if column == "value":
            return self._allowed.lowest, self._allowed.highest
        if column == "factor":
            return 0.0, 1.0
        if column == "priority" and self._settings.input == "associations":
            return -_LARGEST, _LARGEST
        return (1.0, _LARGEST) if column == "job" else (0.0, _LARGEST if column == "priority" else math.inf)

    def _check_once(self, number: int, typed: Mapping[str, object]) -> None:
        if self._settings.input == "qos":
            key: tuple[object, ...] = (typed["name"],)
        else:
            key = tuple(typed.get(column) for column in ("group", "job", "account", "user"))
        first = self._seen.setdefault(key, number)
        if first != number:
            named = ", ".join(str(part) for part in key if part is not None)
            self._refuse(f"row {number}", f"{named} is listed twice, first in row {first}")


_AT_LEAST = {0.0: "a finite number of at least 0", 1.0: "a whole number of at least 1"}


def _names_one(typed: Mapping[str, object]) -> bool:
    """Whether a factor's row names either a job, or a user or account."""
    return ("job" in typed) != ("account" in typed or "user" in typed)
