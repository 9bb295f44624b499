"""Words of SQL in which databases differ, for statements that are text.

:mod:`.listed` and :mod:`.plan` have the same for SQLAlchemy. This module imports nothing, because the command line runs
such statements without SQLAlchemy.

Statements are written for SQLite. Behind a call that another database writes differently, a comment names what it
means, as in ``json_each(?)/*numbers*/``. SQLite skips it, and :mod:`.postgres_text` replaces the call.
"""

NUMBERS, TEXTS, VALUES = "numbers", "texts", "values"
"""What a JSON list or object contains: integers, texts, or any JSON values (see :func:`elements`)."""


def listed(kind: str = NUMBERS) -> str:
    """The JSON list in a parameter, as a table with the columns ``key`` (its place, from 0) and ``value``."""
    return f"json_each(?)/*{kind}*/"


IN_NUMBERS = f"IN (SELECT value FROM {listed(NUMBERS)})"
"""Behind a column: whether its value is in the JSON list of integers in a parameter."""

IN_TEXTS = f"IN (SELECT value FROM {listed(TEXTS)})"
"""As :data:`IN_NUMBERS`, for a list of texts."""

JOIN_IN_ORDER = "CROSS /*in order*/ JOIN"
"""A join with ``ON`` that reads the left side, then the right side for each row. SQLite may turn other joins round."""

WITH_EACH = "CROSS JOIN"
"""Between a table and :func:`elements` or :func:`members` of one of its columns."""


def unindexed(column: str) -> str:
    """A column in a condition for which no index is to be used."""
    return f"(+{column})/*unindexed*/"


def elements(column: str, name: str, kind: str = NUMBERS) -> str:
    """The JSON list in a column, as a table ``name`` with the columns ``key`` and ``value``."""
    return f"json_each({column})/*{kind}*/ {name}"


def members(column: str, name: str) -> str:
    """The JSON object of numbers in a column, as a table ``name`` with the columns ``key`` and ``value``."""
    return f"json_each({column})/*members*/ {name}"


def read_by(index: str) -> str:
    """Behind a table in ``FROM``: the table is read by this index."""
    return f"INDEXED BY {index}"


def text_at(document: str, path: str) -> str:
    """The text at a path of a JSON document, such as ``$.name``; a number there is a text in some databases."""
    return f"json_extract({document}, '{path}')/*text_at*/"


def number_at(document: str, path: str) -> str:
    """The integer at a path of a JSON document."""
    return f"json_extract({document}, '{path}')/*number_at*/"


def value_at(document: str, path: str) -> str:
    """What is at a path of a JSON document, for a result: a number, a text, or a list or object as JSON."""
    return f"json_extract({document}, '{path}')/*value_at*/"


def number_in(column: str, place: str) -> str:
    """The integer at a place, counted from 0, of the JSON list in a column."""
    return f"json_extract({column}, '$[' || ({place}) || ']')/*number_in*/"


def type_of(value: str) -> str:
    """The type of the result of :func:`value_at`: ``text`` for a text."""
    return f"typeof({value})/*type_of*/"


def without(document: str, name: str) -> str:
    """A JSON object without one of its members."""
    return f"json_remove({document}, '$.{name}')/*without*/"


def in_cores(column: str) -> str:
    """The JSON object of amounts in a column, in users' units: vcore in cores."""
    vcore = f"json_extract({column}, '$.vcore')"
    in_cores = f"json_set({column}, '$.vcore', {vcore} / 1000.0)"
    return f"(CASE WHEN {vcore} IS NULL THEN {column} ELSE {in_cores} END)/*in_cores {column}*/"


def sums_as_object(name: str, value: str) -> str:
    """The JSON object of a group's names and values."""
    return f"json_group_object({name}, {value})/*object*/"


def joined(value: str, separator: str, place: str) -> str:
    """The texts of a group as one, in the order of the column ``place``."""
    return f"group_concat({value}, '{separator}')/*joined {place}*/"


def whole(value: str) -> str:
    """A number without its decimals."""
    return f"CAST({value} AS INTEGER)/*whole*/"


def parsed(value: str) -> str:
    """The integer that a text has in decimal digits."""
    return f"CAST({value} AS INTEGER)/*parsed*/"


def piece(column: str, start: str, width: int) -> str:
    """The integer that begins at a byte, counted from 1, of a column of such numbers of equal width."""
    return f"CAST(substr({column}, {start}, {width}) AS INTEGER)/*piece*/"


def after(text: str, mark: str) -> str:
    """The part of a text behind the first mark."""
    return f"substr({text}, instr({text}, '{mark}') + 1)/*after {mark}*/"


def leading(text: str, mark: str) -> str:
    """The integer before the first mark in a text."""
    return f"CAST({text} AS INTEGER)/*leading {mark}*/"


def smaller(one: str, other: str) -> str:
    """The smaller of two numbers."""
    return f"min({one}, {other})/*smaller*/"


def larger(one: str, other: str) -> str:
    """The larger of two numbers."""
    return f"max({one}, {other})/*larger*/"


def number_or_text(number: str) -> str:
    """A number in a column that has texts in other rows; some databases give it as a text."""
    return f"({number})/*number_or_text*/"


def instant(at: str) -> str:
    """A time (UTC seconds) as ``2026-01-31T12:00:00Z``."""
    return f"strftime('%Y-%m-%dT%H:%M:%SZ', {at}, 'unixepoch')/*instant {at}*/"


def in_hex(value: str) -> str:
    """Bytes as hexadecimal digits, in capitals."""
    return f"hex({value})/*hex*/"


def formula(text: str) -> str:
    """A factor's formula, in which a division by zero is NULL."""
    return f"({text})/*formula*/"
