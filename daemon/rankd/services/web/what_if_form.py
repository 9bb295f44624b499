"""The form of What if: which numbers differ from those in force, and between which ends their sliders move. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rankd.core.errors import Refused
from rankd.core.evaluate.variation import Variation

KINDS = ("weight", "class", "qos", "offset")
JOB = ("cores", "nodes", "minutes", "queue", "qos", "priority_class")
LARGEST = 2**31 - 1


class InForce(NamedTuple):
    """The numbers in force: weights by factor, values by class, priorities by QoS, offsets by the path of a queue."""

    weights: Mapping[str, float]
    classes: Mapping[str, int]
    qos: Mapping[str, int]
    offsets: Mapping[str, int]


class Slider(NamedTuple):
    """Between which numbers a slider moves, and how far in one step."""

    low: int
    high: int
    step: int


def variation(fields: Mapping[str, str], now: InForce) -> Variation:
    """What the form changes.

    Raises:
        Refused: ``bad_field``: one is no number.
    """
    return Variation(
        weights=_weights(fields, now.weights),
        classes=_numbers(fields, "class", now.classes),
        qos=_numbers(fields, "qos", now.qos),
        queues=_numbers(fields, "offset", now.offsets),
    )


def _weights(fields: Mapping[str, str], now: Mapping[str, float]) -> dict[str, float]:
    found = dict[str, float]()
    for name, present in now.items():
        text = fields.get(f"weight.{name}", "").strip()
        try:
            value = float(text) if text else present
        except ValueError:
            raise Refused("bad_field", f"'{text[:40]}' is not a number; write one, such as 2000", "weights") from None
        if not math.isfinite(value):
            raise Refused("bad_field", f"'{text[:40]}' is not finite; write a finite one, such as 2000", "weights")
        if value != present:
            found[name] = value
    return found


def _numbers(fields: Mapping[str, str], kind: str, now: Mapping[str, int]) -> dict[str, int]:
    """The whole numbers of a kind that differ from those in force."""
    found = dict[str, int]()
    for name, present in now.items():
        text = fields.get(f"{kind}.{name}", "").strip()
        digits = text.removeprefix("-").removeprefix("+")
        if text and not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) <= LARGEST):
            message = f"'{text[:40]}' is not a whole number of at most {LARGEST:,}"
            raise Refused("bad_field", message, kind)
        if text and int(text) != present:
            found[name] = int(text)
    return found


def new_job(fields: Mapping[str, str]) -> dict[str, Any] | None:
    """The new job; None if none was asked for.

    Raises:
        Refused: ``bad_field``: a number is no whole number, or the cores are missing.
    """
    given = {name: fields.get(name, "").strip() for name in JOB}
    if not any(given.values()):
        return None
    if not given["cores"]:
        raise Refused("bad_field", "the new job needs a number of cores", "cores")
    job: dict[str, Any] = {"command": ["true"], "name": "what if", "resources": {"vcore": _whole(given, "cores")}}
    for name, field, scale in (("nodes", "nodes", 1), ("time_limit_s", "minutes", 60)):
        if given[field]:
            job[name] = _whole(given, field) * scale
    return job | {name: given[name] for name in ("queue", "qos", "priority_class") if given[name]}


def _whole(given: Mapping[str, str], field: str) -> int:
    text = given[field]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Refused("bad_field", f"'{text[:40]}' is not a whole number", field)
    return int(text)


def address(fields: Mapping[str, str], changed: Variation) -> str:
    """The address of the form with these numbers: only those that differ."""
    kept = {f"weight.{name}": f"{value:g}" for name, value in changed.weights.items()}
    for kind, numbers in (("class", changed.classes), ("qos", changed.qos), ("offset", changed.queues)):
        kept |= {f"{kind}.{name}": str(value) for name, value in numbers.items()}
    kept |= {name: fields[name].strip() for name in JOB if fields.get(name, "").strip()}
    return f"/whatif?{urlencode(kept)}"


def slider(numbers: Sequence[float], *, least: int, is_signed: bool) -> Slider:
    """The slider for all numbers of a kind, so that they can be compared: to twice the largest, at least to ``least``.

    >>> slider([1000.0, 10000.0], least=100, is_signed=False), slider([-100, 0], least=1000, is_signed=True)
    (Slider(low=0, high=20000, step=200), Slider(low=-1000, high=1000, step=20))
    """
    high = min(LARGEST, max(least, 2 * math.ceil(max((abs(number) for number in numbers), default=0))))
    low = -high if is_signed or any(number < 0 for number in numbers) else 0
    return Slider(low, high, max(1, (high - low) // 100))
