"""Answers of every verb and service: a refusal, and the service's health. Also the name of a class as a request."""

from __future__ import annotations

import msgspec


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal: a stable code, a message with advice, and the field concerned."""

    code: str
    message: str
    field: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a service is ready, according to itself, including its database and bus.

    ``code`` is a stable word for why it is not ready; ``detail`` is a sentence.
    """

    service: str
    ready: bool
    pid: int
    detail: str = ""
    code: str = ""


class ClassName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a priority class."""

    name: str
