"""The text of an invitation: all that a machine needs to get credentials once. Imports no cryptography.

``rankd-`` and base64url (without padding) of JSON: where the broker is, who is invited, a secret that the gateway knows
by its digest, and credentials that reach nothing but the exchange. Nobody has checked what a text says of itself; only
the gateway's answer counts.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

import msgspec

from rankd.core.errors import Refused
from rankd.identity.credentials import SEED, Credentials

BEGINNING = "rankd-"
SECRET_BYTES = 24
"""192 bits: guessing is hopeless."""
MOST_CHARACTERS = 32 * 2**10
"""A longer text is no invitation. Most of it is for certificates."""
MOST_URLS = 16

_SECRET = re.compile(r"[A-Za-z0-9_-]{32,64}")
_BLANKS = re.compile(r"\s+")


class InvitationText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the text of an invitation says. ``repr`` shows no secret.

    ``nats``: URLs of the broker; the first that answers is used. ``role``: ``user``, ``administrator`` or ``node``.
    ``expires_at``: UTC seconds. ``token`` and ``seed``: credentials for the exchange. ``ca``: certificates of who signs
    the broker's, in PEM form; None without TLS.
    """

    nats: list[str]
    role: str
    name: str
    expires_at: int
    secret: str
    token: str
    seed: str
    ca: str | None = None

    def __repr__(self) -> str:
        return f"InvitationText({self.role} {self.name!r}, …)"

    @property
    def credentials(self) -> Credentials:
        """The credentials for the exchange."""
        return Credentials(self.token, self.seed, self.ca or "")

    def text(self) -> str:
        """The text that the invited user or node gets."""
        return BEGINNING + base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def new_secret() -> str:
    """A random secret of :data:`SECRET_BYTES` bytes."""
    return secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: str) -> str:
    """What the gateway keeps of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def read_invitation(text: str) -> InvitationText:
    """Read the text of an invitation; blanks and line breaks in it do not count.

    Raises:
        Refused: ``bad_token``: this is not the text of an invitation, or a part of it is missing.
    """
    if len(text) > MOST_CHARACTERS:
        raise _refused(f"it has more than {MOST_CHARACTERS} characters")
    word = _BLANKS.sub("", text)
    if not word.startswith(BEGINNING):
        raise _refused(f"it does not begin with {BEGINNING}" if word else "it is empty")
    try:
        encoded = word.removeprefix(BEGINNING).encode("ascii")
        content = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        found = msgspec.json.decode(content, type=InvitationText)
        found.credentials.claims()
    except (ValueError, RecursionError):  # also binascii's, msgspec's and Unicode's errors
        raise _refused("a part of it is missing or damaged; copy the whole text") from None
    if not _is_complete(found):
        raise _refused("it is damaged")
    return found


def _is_complete(found: InvitationText) -> bool:
    has_broker = 0 < len(found.nats) <= MOST_URLS and all(found.nats)
    return has_broker and bool(found.name) and bool(_SECRET.fullmatch(found.secret) and SEED.fullmatch(found.seed))


def _refused(why: str) -> Refused:
    return Refused("bad_token", f"this is not the token of an invitation: {why}", "token")
