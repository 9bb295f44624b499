"""The properties of a queue: the meaning of each value, and the warning for an invalid one.

An invalid value does not refuse the file: a warning is noted and the default is used. ``""`` means not given, and draws
no warning.

Source: YuniKorn's "Priority Scheduling" and "Sorting Policies"; ``priority.factor`` is rankd's own. Unlike in YuniKorn,
a sorting policy is not inherited, and of ``application.sort.priority`` only ``disabled`` is inherited.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rankd.config.plugin import application_sort_names
from rankd.core.model.queue import QueueProperties

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rankd.config.yaml_reader import FilePlace

Kind = Literal["root", "parent", "leaf"]

POLICY = "priority.policy"
OFFSET = "priority.offset"
SORT_PRIORITY = "application.sort.priority"
SORT_POLICY = "application.sort.policy"
FACTOR = "priority.factor"

_KNOWN = (POLICY, OFFSET, SORT_PRIORITY, SORT_POLICY, FACTOR)
_LEAF_ONLY = (SORT_POLICY, FACTOR)
_INT32 = re.compile(r"[+-]?[0-9]+")
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_FACTOR = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Properties:
    """The values as read. ``sort_priority`` is None if no valid one was given; in ``values`` it is true then."""

    values: QueueProperties
    sort_priority: bool | None
    offset: FilePlace | None


def read_properties(place: FilePlace, kind: Kind) -> Properties:
    """The properties under a queue's ``properties``; warnings go to the place's findings.

    For root, policy and offset have no effect and no warning; their defaults are returned.
    """
    entries = place.entries()
    for key, at in entries.items():
        if key not in _KNOWN:
            at.warn("unknown_property", f"rankd does not use the property '{key}'; known: {', '.join(_KNOWN)}")
        elif key in _LEAF_ONLY and kind != "leaf":
            at.warn("no_effect", f"'{key}' works in leaf queues only and is not inherited; set it there")
    fence, offset = ("", 0) if kind == "root" else (_choice(entries, POLICY, ("default", "fence")), _offset(entries))
    sort_priority = _choice(entries, SORT_PRIORITY, ("enabled", "disabled"))
    values = QueueProperties(
        priority_policy="fence" if fence == "fence" else "default",
        priority_offset=offset,
        sort_priority=sort_priority != "disabled",
        sort_policy=_sort_policy(entries),
        priority_factor=_factor(entries),
    )
    given = None if sort_priority == "" else values.sort_priority
    return Properties(values=values, sort_priority=given, offset=entries.get(OFFSET))


def parse_offset(text: str) -> int | None:
    """An int32 as Go's ``strconv.ParseInt(s, 10, 32)`` reads it: sign and ASCII digits. Returns None for other text."""
    if not _INT32.fullmatch(text) or len(text.lstrip("+-0")) > 10:
        return None
    return value if _INT32_MIN <= (value := int(text)) <= _INT32_MAX else None


def _choice(entries: Mapping[str, FilePlace], key: str, choices: Collection[str]) -> str:
    """One of the choices, written in any case; ``""`` without a valid one."""
    text = _text(entries, key)
    if text.lower() in choices:
        return text.lower()
    if text:
        _warn_value(entries[key], text, f"write one of {', '.join(choices)}; this value is ignored")
    return ""


def _offset(entries: Mapping[str, FilePlace]) -> int:
    text = _text(entries, OFFSET)
    offset = parse_offset(text)
    if offset is None and text:
        _warn_value(
            entries[OFFSET],
            text,
            f"write a whole number from {_INT32_MIN} to {_INT32_MAX}; 0 is used instead",
        )
    return offset or 0


def _sort_policy(entries: Mapping[str, FilePlace]) -> str:
    """The name of an installed policy, in its own spelling."""
    text = _text(entries, SORT_POLICY)
    if text == "stateaware":
        entries[SORT_POLICY].warn(
            "deprecated",
            "'stateaware' is deprecated (YuniKorn dropped it in 1.6); use fifo with maxapplications",
        )
    known = application_sort_names()
    if text in known:
        return text
    if text:
        _warn_value(
            entries[SORT_POLICY],
            text,
            f"write one of {', '.join(known)}, upper and lower case as here; fifo is used instead",
        )
    return "fifo"


def _factor(entries: Mapping[str, FilePlace]) -> float | None:
    text = _text(entries, FACTOR)
    value = float(text) if _FACTOR.fullmatch(text) else math.inf
    if math.isfinite(value):
        return value
    if text:
        _warn_value(entries[FACTOR], text, "write a number of at least 0; this value is ignored")
    return None


def _text(entries: Mapping[str, FilePlace], key: str) -> str:
    place = entries.get(key)
    return place.text() if place else ""


def _warn_value(place: FilePlace, text: str, advice: str) -> None:
    place.warn("bad_property_value", f"'{text}' is not a valid value of this property; {advice}")
