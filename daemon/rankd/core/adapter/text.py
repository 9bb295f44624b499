"""Texts as rows: CSV, JSON, TOML, and Slurm's own outputs.

If the last line of a CSV, TOML or Slurm text has no line end, or if a row has fewer cells than the header, the text is
refused, because it may be half written. To avoid that, write a new file beside the old one, and rename it.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterable

import msgspec

from rankd.core.adapter.source import Cell, Row
from rankd.core.errors import ConfigurationError
from rankd.core.model.association import Association
from rankd.core.slurm.assoc import parse_associations, parse_shares
from rankd.core.slurm.identify import NAMES, kind_of
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Accounting, Reading
from rankd.core.slurm.sacctmgr_dump import parse_dump

FORMATS = ("csv", "json", "toml", "slurm")


def rows_of_text(text: str, form: str, wanted: str, delimiter: str = ",") -> list[Row]:
    """The rows of a text in one of :data:`FORMATS`. ``wanted``: the input to read; a dump of Slurm's has several.

    Raises:
        ValueError: the text can't be read; with the place.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ValueError("it is empty")
    if form != "json":
        check_end(text)
    if form == "csv":
        return _csv(text, delimiter)
    if form == "slurm":
        return _slurm(text, wanted)
    return rows_of_document(_json(text) if form == "json" else tomllib.loads(text))


def check_end(text: str) -> None:
    """Refuse a text that may be half written.

    Raises:
        ValueError: the last line has no line end.
    """
    if not text.endswith(("\n", "\r")):
        raise ValueError("the last line has no end, so the file may be half written; end it with a line end")


def rows_of_document(document: object) -> list[Row]:
    """The rows of a decoded document: a list of mappings, or a mapping with such a list as its only value.

    Raises:
        ValueError: the document is anything else.
    """
    if isinstance(document, dict) and len(document) == 1:
        document = next(iter(document.values()))
    if not isinstance(document, list):
        message = "a list of rows is needed, each a mapping of columns to values"
        raise ValueError(message)  # noqa: TRY004 - the text is wrong, not a caller
    for number, row in enumerate(document, start=1):
        if not isinstance(row, dict) or not all(isinstance(key, str) for key in row):
            raise ValueError(f"row {number} is not a mapping of columns to values")
    return document


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON, or half written: {error}") from None


def _csv(text: str, delimiter: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: it is not CSV: {error}") from None
    header = [title.strip() for title in lines[0]]
    repeated = [title for place, title in enumerate(header) if title in header[:place]]
    if repeated:
        raise ValueError(f"the header has the column '{repeated[0]}' twice")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(header):
            raise ValueError(f"row {number} has {len(line)} cells and the header {len(header)}; is it half written?")
        rows.append({title: cell.strip() for title, cell in zip(header, line, strict=True)})
    return rows


def _slurm(text: str, wanted: str) -> list[Row]:
    kind = kind_of(text)
    reading = Reading("")
    if kind == "dump":
        found = parse_dump(text, reading)
    elif kind == "associations":
        found = parse_associations(text, reading)
    elif kind == "shares":
        found = parse_shares(text, reading)
    elif kind == "qos":
        found = parse_qos(text, reading)
    else:
        raise ValueError("it is not one of Slurm's outputs, or it has no header; known: " + "; ".join(NAMES.values()))
    try:
        reading.raise_problems()
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return list(_rows_of_accounting(found, wanted))


def _rows_of_accounting(found: Accounting, wanted: str) -> Iterable[Row]:
    if wanted == "qos":
        return ({"name": q.name, "priority": q.priority, "usage_factor": q.usage_factor} for q in found.qos)
    if wanted == "usage":
        users = (entry for entry in found.associations if entry.user is not None)
        return ({"account": entry.account, "user": entry.user, "usage": entry.usage} for entry in users)
    if wanted == "associations":
        return (_association_row(entry) for entry in found.associations)
    raise ValueError(f"Slurm's outputs have associations, usage and qos, but not {wanted}")


def _association_row(entry: Association) -> Row:
    row: dict[str, Cell] = {"account": entry.account, "shares": entry.shares, "priority": entry.priority}
    if entry.user is None:
        return {**row, "parent": entry.parent}
    return {**row, "user": entry.user, "default": entry.default}
