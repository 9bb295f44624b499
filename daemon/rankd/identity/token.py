"""Reading a user's token. Imports no cryptography, so that commands start fast."""

from __future__ import annotations

import base64
import binascii

import msgspec

ROLE_TAG = "rankd:"
"""Before the role, among the tags of a token."""


class ReadClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says. Nobody has checked its signature: it tells a program who it is, and proves nothing.

    ``signed_at`` and ``expires_at``: UTC seconds; ``expires_at`` None means never.
    """

    name: str
    role: str | None
    public: str
    expires_at: int | None
    signed_at: int = 0

    @property
    def renew_at(self) -> float | None:
        """When to ask for newer credentials: after half of their time. None means never."""
        return None if self.expires_at is None else (self.signed_at + self.expires_at) / 2


class _Content(msgspec.Struct):
    tags: list[str] = []


class _Claims(msgspec.Struct):
    name: str
    sub: str
    nats: _Content
    exp: int | None = None
    iat: float = 0


def read_claims(token: str) -> ReadClaims:
    """Read a user's token.

    Raises:
        ValueError: this is not a token.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("this is not a token: it has to have three parts")
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        read = msgspec.json.decode(text, type=_Claims)
    except (binascii.Error, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"the token can't be read: {error}") from None
    roles = [tag.removeprefix(ROLE_TAG) for tag in read.nats.tags if tag.startswith(ROLE_TAG)]
    role = roles[0] if roles else None
    return ReadClaims(name=read.name, role=role, public=read.sub, expires_at=read.exp, signed_at=int(read.iat))
