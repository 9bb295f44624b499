"""The key for which an invitation is being exchanged, on the disk until the credentials are.

If the exchange is cut off, the next try has the same key, and the gateway gives the credentials to no other one.
"""

from __future__ import annotations

from pathlib import Path

from rankd.identity.credentials import write_private
from rankd.identity.key import Key, KeyKind, key_of_seed, new_key


def pending_key(path: Path, digest: str) -> Key:
    """The key for the invitation with this digest: that of the last try, or a new one that is written down first.

    Raises:
        OSError: the file can't be written.
    """
    found = _read(path, digest)
    if found is None:
        found = new_key(KeyKind.USER)
        write_private(path, f"{digest} {found.seed}\n")
    return found


def _read(path: Path, digest: str) -> Key | None:
    try:
        of, _, seed = path.read_text(encoding="ascii").strip().partition(" ")
        return key_of_seed(seed) if of == digest else None
    except (OSError, ValueError):
        return None
