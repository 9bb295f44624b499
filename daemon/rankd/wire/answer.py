"""Answers that every verb and every service can give: a refusal, and its own health; and the name of a class."""

from __future__ import annotations

import msgspec


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every refusal: a stable code, what to do, and which field."""

    code: str
    message: str
    field: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a service is ready, asked of itself: database and bus included.

    ``code`` says in one word why it is not; ``detail`` says it in a sentence.
    """

    service: str
    ready: bool
    pid: int
    detail: str = ""
    code: str = ""


class ClassName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A priority class, by name."""

    name: str
