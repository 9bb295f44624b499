"""The limits of a submission's fields: how long each may be, and how many parts it may have.

Without these limits, one request could keep the intake or the scheduler busy for seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.near_name import cut

MAX_NODES = 1_000_000
MAX_COMMAND_WORDS = 8_192
MAX_COMMAND_BYTES = 128 * 2**10
MAX_DEPENDENCIES = 1_000
MAX_KINDS = 32
MAX_KIND_NAME = 253
MAX_TIME_LIMIT_S = 100 * 366 * 86_400
LATEST_AT = 253_402_300_799.0
"""The last second of the year 9999, the last year of many calendar libraries."""
MAX_NAME = 256

_CHARACTERS = "characters"
_BYTES = "bytes"


class TextLimit(NamedTuple):
    """The largest size of a text field, in ``unit``, and the advice for a longer text."""

    most: int
    unit: str = _CHARACTERS
    advice: str = "shorten it"

    @property
    def surely(self) -> int:
        """A text of this number of characters is always within the limit. A character has up to four bytes."""
        return self.most if self.unit == _CHARACTERS else self.most // 4


_NAME = TextLimit(MAX_NAME)

OWN_TEXTS: Mapping[str, TextLimit] = {
    "name": _NAME,
    "key": _NAME,
    "application": _NAME,
    "comment": TextLimit(4096, _BYTES, "put long texts into a file"),
}
"""Texts that are not looked up in a table. They are checked for each job."""

SURELY_SHORT = min(limit.surely for limit in OWN_TEXTS.values())
"""Any text of at most this number of characters is within all limits of :data:`OWN_TEXTS`."""

LOOKED_UP_TEXTS: Mapping[str, TextLimit] = {
    "user": _NAME,
    "account": _NAME,
    "qos": _NAME,
    "partition": _NAME,
    "priority_class": _NAME,
    "preemption_policy": _NAME,
    "queue": TextLimit(1024, _BYTES, "name a queue with a shorter path"),
    "constraints": TextLimit(16 * 2**10, _BYTES, "ask for fewer labels"),
    "array": TextLimit(128 * 2**10, _BYTES, "write ranges"),
}
"""Texts that are looked up in tables. They are resolved once for all jobs with the same values."""


def check_texts(request: JobRequest, limits: Mapping[str, TextLimit]) -> None:
    """Check the length of these fields.

    Raises:
        Refused: ``too_long``, with the field.
    """
    for field, limit in limits.items():
        text = getattr(request, field)
        if text is not None and len(text) > limit.surely:
            check_length(field, text, limit)


def check_own_texts(request: JobRequest) -> None:
    """Check the length of the texts in :data:`OWN_TEXTS`, and that they contain no NUL character.

    Raises:
        Refused: ``bad_text``, ``too_long``.
    """
    for field in OWN_TEXTS:
        check_no_nul(field, getattr(request, field) or "")
    check_texts(request, OWN_TEXTS)


def check_length(field: str, text: str, limit: TextLimit) -> None:
    """Check the length of one text.

    Raises:
        Refused: ``too_long``, with the field.
    """
    size = len(text) if limit.unit == _CHARACTERS else n_bytes(text)
    if size > limit.most:
        message = f"{field} has {size} {limit.unit}, {limit.most} are allowed; {limit.advice}"
        raise Refused("too_long", message, field)


def check_no_nul(field: str, text: str) -> None:
    """Check that the text contains no NUL character, so that it can be passed to a program.

    Raises:
        Refused: ``bad_text``.
    """
    if "\0" in text:
        raise Refused("bad_text", f"{field} contains a NUL character, which programs can't receive", field)


def n_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_plain(command: list[str], most_words: int) -> bool:
    """Whether a command is so short and plain that it is certainly within the limits."""
    text = "".join(command[:most_words])
    return (
        bool(command and command[0])
        and len(text) * 4 <= MAX_COMMAND_BYTES
        and len(command) <= most_words
        and "\0" not in text
    )


def check_command(command: list[str]) -> None:
    """Check the words of the command: that there is a program, their number, and their bytes.

    Raises:
        Refused: ``empty_command``, ``too_long``, ``bad_text``.
    """
    if not command or not command[0]:
        raise Refused("empty_command", "the command is empty; give the program and its arguments", "command")
    if len(command) > MAX_COMMAND_WORDS:
        message = f"command has {len(command)} words, {MAX_COMMAND_WORDS} are allowed; put them into a file"
        raise Refused("too_long", message, "command")
    joined = "".join(command)
    check_no_nul("command", joined)
    if len(joined) * 4 > MAX_COMMAND_BYTES and n_bytes(joined) > MAX_COMMAND_BYTES:
        message = f"command has {n_bytes(joined)} bytes, {MAX_COMMAND_BYTES} are allowed; put long words into a file"
        raise Refused("too_long", message, "command")


def check_environment(env: Mapping[str, str], most: int) -> None:
    """Check the names of the environment, and its size: names, values, and two bytes for each variable.

    Raises:
        Refused: ``too_long``, ``bad_text``.
    """
    names = "".join(env)
    text = names + "".join(env.values())
    if "\0" in text:
        check_no_nul("env", text)
    if "" in env or "=" in names:
        name = next(name for name in env if not name or "=" in name)
        raise Refused("bad_text", f"'{cut(name)}' is not the name of an environment variable", "env")
    if len(text) * 4 + 2 * len(env) > most:
        size = n_bytes(text) + 2 * len(env)
        if size > most:
            message = (
                f"env has {size} bytes, {most} are allowed (admission.max_env_bytes); export fewer variables, "
                "or put long values into a file"
            )
            raise Refused("too_long", message, "env")


def check_count(field: str, number: int, most: int, what: str, advice: str) -> None:
    """Check that the field has at most ``most`` parts.

    Raises:
        Refused: ``too_many``.
    """
    if number > most:
        raise Refused("too_many", f"{field} has {number} {what}, {most} are allowed; {advice}", field)
