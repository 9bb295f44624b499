"""What travels over ``login.sock``: one line of JSON each way."""

from __future__ import annotations

from typing import Literal

import msgspec


class LoginRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for credentials. For whom, the kernel says."""

    want: Literal["credentials"] = "credentials"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for the broker at ``nats``, in the ``.creds`` form, valid until ``expires_at`` (UTC seconds)."""

    user: str
    nats: str
    creds: str
    expires_at: float


class LoginRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Why there are none."""

    code: str
    message: str
