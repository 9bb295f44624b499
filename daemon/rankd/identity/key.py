"""Keys of NATS (nkeys, Ed25519): of the operator, of accounts, of users.

A site has one secret. The keys of its operator and of all its accounts are derived from it, so nothing has to be
stored for a new user or node, and two processes that need the same account at the same time get the same key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from enum import Enum

import nkeys

SECRET_BYTES = 32


class KeyKind(Enum):
    """What a key is for; the value is nkeys' prefix byte."""

    OPERATOR = nkeys.PREFIX_BYTE_OPERATOR
    ACCOUNT = nkeys.PREFIX_BYTE_ACCOUNT
    USER = nkeys.PREFIX_BYTE_USER


class Key:
    """A key pair. Its ``repr`` shows the public key only."""

    def __init__(self, pair: nkeys.KeyPair) -> None:
        self._pair = pair
        self.public: str = bytes(pair.public_key).decode()

    def __repr__(self) -> str:
        return f"Key({self.public})"

    @property
    def seed(self) -> str:
        """The private half, as nkeys writes it: ``SU…`` for a user's."""
        return bytes(self._pair.seed).decode()

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        return bytes(self._pair.sign(message))


def derive(secret: bytes, kind: KeyKind, name: str) -> Key:
    """The key of ``kind`` with this name: always the same one for the same secret.

    >>> derive(bytes(32), KeyKind.ACCOUNT, "user alice").public[0]
    'A'
    """
    return _of(hmac.digest(secret, f"{kind.name.lower()} {name}".encode(), hashlib.sha256), kind)


def new_key(kind: KeyKind) -> Key:
    """A key that nobody has had before."""
    return _of(secrets.token_bytes(SECRET_BYTES), kind)


def key_of_seed(seed: str) -> Key:
    """The key with this private half.

    Raises:
        ValueError: this is not a seed.
    """
    try:
        return Key(nkeys.from_seed(bytearray(seed.encode())))
    except (nkeys.NkeysError, ValueError, LookupError):
        raise ValueError("this is not the seed of a key") from None


def answer(seed: str, nonce: str) -> bytes:
    """The answer to the broker's challenge, in the encoding that it expects.

    Raises:
        ValueError: this is not a seed.
    """
    return base64.b64encode(key_of_seed(seed).sign(nonce.encode()))


def _of(raw: bytes, kind: KeyKind) -> Key:
    return Key(nkeys.from_seed(bytearray(nkeys.encode_seed(raw, kind.value))))
