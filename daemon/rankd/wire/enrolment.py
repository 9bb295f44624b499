"""What travels when an invitation is exchanged for credentials, and when credentials are renewed.

The private half of a key never travels: a client makes a key, sends its public half, and gets a signed token for it.
"""

from __future__ import annotations

import msgspec

MOST_BYTES = 4_096
"""A longer request is refused."""


class Redeem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Exchange an invitation: its secret, and the public key that the credentials are to be for."""

    secret: str
    key: str


class Renew(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for credentials that last longer. For whom, the subject says; ``key`` is the public key."""

    key: str


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A signed token for the public key that was sent: with its private half, these are credentials.

    ``role`` and ``name`` say whose they are. ``expires_at`` is in UTC seconds.
    """

    role: str
    name: str
    token: str
    expires_at: float
