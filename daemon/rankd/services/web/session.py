"""Sessions: a signed cookie that names the user, and the token that each change of the page has to repeat. Pure.

The key is in a file of the site, so sessions outlive a restart of the service. Removing the file ends all of them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import NamedTuple

import msgspec

COOKIE = "rankd"
LASTS_S = 12 * 3600.0
KEY_BYTES = 32
_MOST_CHARACTERS = 1_024


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who is signed in since when (UTC seconds). ``nonce`` makes sessions of one user different from each other."""

    user: str
    since: float
    nonce: str


class Signed(NamedTuple):
    """A session, and the cookie that carries it."""

    session: Session
    cookie: str


def sign(session: Session, key: bytes) -> str:
    """The cookie of a session."""
    body = _text(msgspec.json.encode(session))
    return f"{body}.{_text(_digest(key, 'session', body))}"


def read(cookie: str, key: bytes, now: float) -> Session | None:
    """The session of a cookie; None if it is not signed with this key, is over, or begins in the future."""
    body, point, signature = cookie.partition(".")
    if not point or len(cookie) > _MOST_CHARACTERS or not cookie.isascii():
        return None
    if not hmac.compare_digest(_text(_digest(key, "session", body)), signature):
        return None
    try:
        session = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Session)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        return None
    return session if session.since - LASTS_S < now < session.since + LASTS_S else None


def change_token(user: str, nonce: str, key: bytes) -> str:
    """The token that changes of this session repeat. Another site's page can't know it.

    ``nonce``: the session's; empty for a user who signed in at a proxy.
    """
    return _text(_digest(key, "change", f"{len(user)} {user} {nonce}"))


def is_change_token(given: str, user: str, nonce: str, key: bytes) -> bool:
    """Whether a change repeats the right token."""
    wanted = change_token(user, nonce, key)
    return hmac.compare_digest(wanted.encode(), given.encode(errors="surrogatepass"))


def _digest(key: bytes, purpose: str, text: str) -> bytes:
    return hmac.digest(key, f"{purpose} {text}".encode(errors="surrogatepass"), "sha256")


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
