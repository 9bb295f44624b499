"""How long a field of a submission may be, and how many parts it may have. Every field has a limit here.

Without these limits, one request could keep the intake or the scheduler busy for seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest

MAX_NODES = 1_000_000
MAX_COMMAND_WORDS = 8_192
MAX_COMMAND_BYTES = 128 * 2**10
MAX_DEPENDENCIES = 1_000
MAX_KINDS = 32
MAX_KIND_NAME = 253
MAX_TIME_LIMIT_S = 100 * 366 * 86_400
LATEST_AT = 253_402_300_799.0
"""The last second of the year 9999, which is as far as calendars of programs go."""
MAX_NAME = 256

_CHARACTERS = "characters"
_BYTES = "bytes"


class TextLimit(NamedTuple):
    """The most of one text field, and what to do about a longer one."""

    most: int
    unit: str = _CHARACTERS
    advice: str = "shorten it"


_NAME = TextLimit(MAX_NAME)

OWN_TEXTS: Mapping[str, TextLimit] = {
    "name": _NAME,
    "key": _NAME,
    "application": _NAME,
    "comment": TextLimit(4096, _BYTES, "put what is long into a file"),
}
"""Texts that no table decides about; each job is checked by itself."""

LOOKED_UP_TEXTS: Mapping[str, TextLimit] = {
    "user": _NAME,
    "account": _NAME,
    "qos": _NAME,
    "partition": _NAME,
    "priority_class": _NAME,
    "preemption_policy": _NAME,
    "queue": TextLimit(1024, _BYTES, "name a queue with a shorter path"),
    "constraints": TextLimit(16 * 2**10, _BYTES, "ask for fewer labels"),
    "array": TextLimit(16 * 2**10, _BYTES, "write ranges"),
}
"""Texts that are resolved once for all jobs that are alike."""


def check_texts(request: JobRequest, limits: Mapping[str, TextLimit]) -> None:
    """Check the length of these fields.

    Raises:
        Refused: ``too_long``, with the field.
    """
    for field, limit in limits.items():
        text = getattr(request, field)
        # a character has at most four bytes, so most texts need no counting
        if text is not None and len(text) * 4 > limit.most:
            _check_length(field, text, limit)


def _check_length(field: str, text: str, limit: TextLimit) -> None:
    size = len(text) if limit.unit == _CHARACTERS else n_bytes(text)
    if size > limit.most:
        message = f"{field} has {size} {limit.unit}, {limit.most} are allowed; {limit.advice}"
        raise Refused("too_long", message, field)


def n_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_command(command: list[str]) -> None:
    """Check the number of words and their bytes.

    Raises:
        Refused: ``too_long``.
    """
    if len(command) > MAX_COMMAND_WORDS:
        message = f"command has {len(command)} words, {MAX_COMMAND_WORDS} are allowed; put them into a file"
        raise Refused("too_long", message, "command")
    if sum(map(len, command)) * 4 > MAX_COMMAND_BYTES:
        size = sum(map(n_bytes, command))
        if size > MAX_COMMAND_BYTES:
            message = f"command has {size} bytes, {MAX_COMMAND_BYTES} are allowed; put what is long into a file"
            raise Refused("too_long", message, "command")


def check_environment(env: Mapping[str, str], most: int) -> None:
    """Check the size of the environment: its names and values, and two bytes for each variable as programs get them.

    Raises:
        Refused: ``too_long``.
    """
    if not env:
        return
    n_signs = 2 * len(env)
    if (sum(map(len, env)) + sum(map(len, env.values()))) * 4 + n_signs > most:
        size = sum(map(n_bytes, env)) + sum(map(n_bytes, env.values())) + n_signs
        if size > most:
            message = (
                f"env has {size} bytes, {most} are allowed (admission.max_env_bytes); export fewer variables, "
                "or put what is long into a file"
            )
            raise Refused("too_long", message, "env")


def check_count(field: str, number: int, most: int, what: str, advice: str) -> None:
    """Check how many parts a field has.

    Raises:
        Refused: ``too_many``.
    """
    if number > most:
        raise Refused("too_many", f"{field} has {number} {what}, {most} are allowed; {advice}", field)
