"""Answers of every verb and service: a refusal, and the service's health. Also the name of a class as a request."""

from __future__ import annotations

import msgspec

from rankd.core.errors import RankdError, Refused, Unavailable


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal: a stable code, a message with advice, and the field concerned."""

    code: str
    message: str
    field: str | None = None


def error_of(status: str, body: ErrorBody) -> RankdError:
    """The error that an answer carries. ``status``: its number, as in the header."""
    kind: type[RankdError] = Unavailable if status in ("429", "503") else Refused
    return kind(body.code, body.message, body.field, int(status))


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a service is ready, according to itself, including its database and bus.

    ``code`` is a stable word for why it is not ready; ``detail`` is a sentence. ``host``: the machine that it runs on.
    """

    service: str
    ready: bool
    pid: int
    detail: str = ""
    code: str = ""
    host: str = ""


class ClassName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a priority class."""

    name: str
