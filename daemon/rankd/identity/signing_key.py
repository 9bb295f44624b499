"""The key with which notifications are signed, so that a receiver knows that they come from this site.

All receivers have the same key. It is kept in a file of its own and gives no access to anything.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from rankd.core.errors import Refused
from rankd.identity.credentials import write_private

SIGNING_KEY = "notify.key"
BYTES = 32


def open_signing_key(path: Path, *, is_renewed: bool = False) -> str:
    """The key in this file, as hexadecimal digits; a new one if there is none.

    Raises:
        Refused: ``bad_secret``: the file holds something else.
        OSError: it can't be read or written.
    """
    if is_renewed or not path.exists():
        write_private(path, secrets.token_hex(BYTES) + "\n")
    return read_signing_key(path)


def read_signing_key(path: Path) -> str:
    """The key in this file.

    Raises:
        Refused: ``bad_secret``.
        OSError: it can't be read.
    """
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if len(text) < BYTES or not text.isalnum():
        message = f"{path} does not hold a key for signatures; remove it, or write `rankd auth notify-key --renew`"
        raise Refused("bad_secret", message)
    return text


def signature(key: str, body: bytes) -> str:
    """The value of the header ``Rankd-Signature``. The key is used as text.

    >>> signature("0" * 64, b"{}")[:20]
    'sha256=7e9b2c6a64f3d'
    """
    return f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}"
