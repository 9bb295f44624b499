"""What travels over ``login.sock``.

A client sends one line of JSON, and the bytes of a request behind it if the line announces some. It gets one line of
JSON, and the bytes of an answer behind it if that line announces some. Then the connection ends.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.errors import Refused
from rankd.wire.login_size import MOST_REQUEST_BYTES

MOST_LINE_BYTES = 4_096
LONGEST_KEY = 512
LONGEST_VERB = 81
_VERB = re.compile(r"[a-z_]{1,40}\.[a-z_]{1,40}")


class LoginRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask for credentials, for the own name, or for the answer to a request. For whom, the kernel says.

    ``answer``: the request for ``verb`` has ``size`` bytes behind this line, and the message id ``key`` if it has one.
    """

    want: Literal["credentials", "name", "answer"] = "credentials"
    verb: Annotated[str, Meta(max_length=LONGEST_VERB)] = ""
    size: int = 0
    key: Annotated[str, Meta(max_length=LONGEST_KEY)] | None = None


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for the broker at ``nats``, in the ``.creds`` form, valid until ``expires_at`` (UTC seconds)."""

    user: str
    nats: str
    creds: str
    expires_at: float


class LoginName(msgspec.Struct, frozen=True, kw_only=True):
    """Under which name a user asks here, and the broker behind it."""

    user: str
    nats: str


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer's ``size`` bytes follow. ``status``: the answer is an error of this number, as on the bus."""

    size: int
    status: str | None = None


class LoginRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    code: str
    message: str
    field: str | None = None
    status: int = 403


def check_asked(asked: LoginRequest) -> None:
    """Check what announces a request. A verb is one of two words, so that it can't name another subject.

    Raises:
        Refused: ``bad_request``, ``too_large``.
    """
    if _VERB.fullmatch(asked.verb) is None:
        raise Refused("bad_request", f"'{asked.verb[:80]}' is not a verb; write job.list, for example", "verb")
    if asked.size < 0 or (asked.key is not None and (len(asked.key) > LONGEST_KEY or not asked.key.isprintable())):
        raise Refused("bad_request", "the size or the key of the request is not valid", "size")
    if asked.size > MOST_REQUEST_BYTES:
        message = f"a request has at most {MOST_REQUEST_BYTES} bytes here; send fewer jobs at once"
        raise Refused("too_large", message, "size", status=413)
