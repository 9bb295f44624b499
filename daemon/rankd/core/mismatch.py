"""All errors in decoded JSON, TOML or YAML that should be a struct, each with its path.

msgspec stops at the first error. If it refuses a value, this module checks the value again, part by part. A path begins
with the given path of the whole value (``$`` for documents, an empty text for configuration files).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw, UnsetType

from rankd.core.errors import Problem

_READ_LATER: dict[object, object] = {Raw | UnsetType: Any, list[Raw] | None: list[Any] | None}
"""Types of sections that are kept as text, and the types for their check here. ``Any`` accepts every value."""

_TYPES = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "a table of keys", "null": "null",
}  # fmt: skip
_SIGNS = {">": "above", ">=": "of at least", "<": "below", "<=": "of at most"}
_NULL = r"(?: \| null)?"
_BOUND = re.compile(rf"Expected `(?P<type>int|float){_NULL}` (?P<sign>>=|>|<=|<) (?P<value>\S+)")
_PATTERN = re.compile(rf"Expected `str{_NULL}` matching regex '(?P<regex>.*)'")
_LENGTH = re.compile(rf"Expected `(?P<type>str|array){_NULL}` of length (?P<sign>>=|<=) (?P<value>\d+)")
_OTHER = re.compile(r"Expected `(?P<types>[^`]+)`, got `(?P<got>[^`]+)`")
"""Messages of msgspec."""


def mismatches(value: object, kind: type[msgspec.Struct], path: str) -> list[Problem]:
    """All reasons why a value can't be converted to this struct; empty if it can."""
    return list(_inner(value, kind, path))


def not_finite(value: object, path: str) -> Iterator[Problem]:
    """A problem for each NaN and infinity in a decoded value. JSON has none; TOML and YAML do."""
    if isinstance(value, float) and not math.isfinite(value):
        yield Problem(path=path, message=f"{value} is not finite; write a finite one")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from not_finite(item, _joined(path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from not_finite(item, f"{path}[{place}]")


def _problems(value: object, kind: object, path: str) -> list[Problem]:
    """The problems of a value of this kind, each with the most exact path."""
    try:
        msgspec.convert(value, _READ_LATER.get(kind, kind))
    except msgspec.ValidationError as error:
        message = in_plain_words(str(error).partition(" - at `")[0]) + _known(kind)
        return list(_inner(value, kind, path)) or [Problem(path=path, message=message)]
    return []


def in_plain_words(message: str) -> str:
    """A message of msgspec about a value, in rankd's words.

    >>> in_plain_words("Expected `float` > 0.0"), in_plain_words("Expected `int`, got `str`")
    ('give a number above 0', 'give a whole number, not a text')
    >>> in_plain_words("Expected `str` matching regex '^/'")
    'give an absolute path, such as /etc/rankd/prolog'
    """
    if found := _BOUND.fullmatch(message):
        return f"give {_TYPES[found['type']]} {_SIGNS[found['sign']]} {found['value'].removesuffix('.0')}"
    if found := _PATTERN.fullmatch(message):
        path = "an absolute path, such as /etc/rankd/prolog"
        return f"give {path if found['regex'] == '^/' else 'a text that matches ' + found['regex']}"
    if found := _LENGTH.fullmatch(message):
        many, what = ("at least" if found["sign"] == ">=" else "at most"), _TYPES[found["type"]]
        return f"give {what} of {many} {found['value']} {'characters' if found['type'] == 'str' else 'entries'}"
    if found := _OTHER.fullmatch(message):
        wanted = " or ".join(_TYPES.get(one, one) for one in found["types"].split(" | ") if one != "null")
        return f"give {wanted}, not {_TYPES.get(found['got'], found['got'])}"
    return message


def _known(kind: object) -> str:
    """The allowed words for the end of a message; empty if the kind is not a set of words."""
    words: tuple[str, ...] = get_args(kind) if get_origin(kind) is Literal else ()
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        words = tuple(kind)
    return f"; known: {', '.join(words)}" if words else ""


def _inner(value: object, kind: object, path: str) -> Iterator[Problem]:
    kind = sole(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _fields(value, kind, path)
    elif isinstance(value, list) and get_origin(kind) is list:
        for place, item in enumerate(value):
            yield from _problems(item, get_args(kind)[0], f"{path}[{place}]")
    elif isinstance(value, dict) and get_origin(kind) is dict:
        for key, item in value.items():
            yield from _problems(item, get_args(kind)[1], _joined(path, key))


def _fields(value: object, kind: type[msgspec.Struct], path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path=path, message="an object is needed here")
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key in value:
        if key not in fields:
            yield Problem(path=_joined(path, key), message=f"unknown key '{key}'; known: {', '.join(fields)}")
    for name, field in fields.items():
        if value.get(name) is None and not field.required:
            continue
        if name in value:
            yield from _problems(value[name], field.type, _joined(path, name))
        elif field.required:
            yield Problem(path=_joined(path, name), message=f"'{name}' is needed")


def takes_null(kind: object) -> bool:
    """Whether null is a value of this kind."""
    return kind is Raw or NoneType in get_args(kind) or Raw in get_args(kind)


def sole(kind: object) -> object:
    """The other member, if the kind is a union of one type with None or UNSET; else the kind itself."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [arm for arm in get_args(kind) if arm not in (NoneType, UnsetType)]
        return kinds[0] if len(kinds) == 1 else kind
    return kind


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
