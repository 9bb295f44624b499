"""Signed claims (JWTs) of operator, accounts and users, as nats-server reads them.

The form is that of NATS' own ``jwt`` library, version 2: JSON, signed with an nkey (algorithm ``ed25519-nkey``).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from rankd.identity.key import Key
from rankd.identity.token import ROLE_TAG

UNLIMITED = -1
ANSWER_WITHIN_S = 60
_HEADER = b'{"typ":"JWT","alg":"ed25519-nkey"}'


class Export(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an account lets others import: subjects that it answers (service), or that it publishes (stream)."""

    name: str
    subject: str
    type: Literal["service", "stream"]
    response_type: Literal["Singleton", "Stream"] | None = None


class Import(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an account imports. ``account`` is the public key of the account that exports it."""

    name: str
    subject: str
    account: str
    type: Literal["service", "stream"]


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What an account may use: connections, subscriptions, bytes of a message, streams. No exports, no leaf nodes."""

    connections: int = UNLIMITED
    subscriptions: int = UNLIMITED
    payload_bytes: int = UNLIMITED
    has_streams: bool = False


class AccountClaims(msgspec.Struct, frozen=True, kw_only=True):
    """An account. ``revoked``: by public key of a user, the time (UTC seconds) before which its claims do not count."""

    public: str
    name: str
    exports: Sequence[Export] = ()
    imports: Sequence[Import] = ()
    limits: AccountLimits = AccountLimits()
    revoked: Mapping[str, int] = {}


class Narrow(msgspec.Struct, frozen=True, kw_only=True):
    """The only subjects that a connection may use, and its limits within those of its account.

    ``answers``: it may also answer each request that it gets, once, on the request's own reply subject.
    """

    publish: Sequence[str]
    subscribe: Sequence[str]
    subscriptions: int
    payload_bytes: int
    answers: bool = False


class UserClaims(msgspec.Struct, frozen=True, kw_only=True):
    """A connection's rights in its account: all of the account's, or those of ``narrow``.

    ``expires_at``: UTC seconds; None means never.
    """

    public: str
    name: str
    role: str
    expires_at: int | None = None
    narrow: Narrow | None = None


def operator_token(operator: Key, system_account: str, now: float) -> str:
    """What the server trusts: accounts that this operator has signed."""
    return _signed(operator, operator.public, "rankd", {"type": "operator", "system_account": system_account}, now)


def account_token(operator: Key, claims: AccountClaims, now: float) -> str:
    """An account, signed by the operator."""
    limits = claims.limits
    allowed: dict[str, Any] = {
        "subs": limits.subscriptions,
        "data": UNLIMITED,
        "payload": limits.payload_bytes,
        "imports": UNLIMITED,
        "exports": UNLIMITED if claims.exports else 0,
        "wildcards": True,
        "conn": limits.connections,
        "leaf": 0,
    }
    if limits.has_streams:
        allowed |= dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), UNLIMITED)
    content = {
        "type": "account",
        "limits": allowed,
        "exports": claims.exports,
        "imports": claims.imports,
        "revocations": claims.revoked,
        "default_permissions": {"pub": {}, "sub": {}},
    }
    return _signed(operator, claims.public, claims.name, content, now)


def user_token(account: Key, claims: UserClaims, now: float) -> str:
    """A user of an account, signed by the account."""
    narrow = claims.narrow
    content: dict[str, Any] = {
        "type": "user",
        "pub": {} if narrow is None else {"allow": narrow.publish},
        "sub": {} if narrow is None else {"allow": narrow.subscribe},
        "subs": UNLIMITED if narrow is None else narrow.subscriptions,
        "data": UNLIMITED,
        "payload": UNLIMITED if narrow is None else narrow.payload_bytes,
        "tags": [f"{ROLE_TAG}{claims.role}"],
    }
    if narrow is not None and narrow.answers:
        content["resp"] = {"max": 1, "ttl": ANSWER_WITHIN_S * 1_000_000_000}
    return _signed(account, claims.public, claims.name, content, now, claims.expires_at)


def _signed(
    issuer: Key, subject: str, name: str, content: Mapping[str, Any], now: float, expires_at: int | None = None
) -> str:
    claims: dict[str, Any] = {
        "iat": int(now),
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {**content, "version": 2},
    }
    if expires_at is not None:
        claims["exp"] = expires_at
    digest = hashlib.sha256(msgspec.json.encode(claims)).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_encoded(_HEADER)}.{_encoded(msgspec.json.encode(claims))}"
    return f"{signed}.{_encoded(issuer.sign(signed.encode()))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
