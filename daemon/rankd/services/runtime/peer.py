"""Who is at the other end of a Unix socket, by the kernel's word (SO_PEERCRED), and what that user may be."""

from __future__ import annotations

import pwd
import socket
import struct
from typing import NamedTuple

from rankd.core.errors import Refused

_CREDENTIALS = struct.Struct("3i")


class Peer(NamedTuple):
    """The process that connected, at the moment when it did."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """The process at the other end.

    Raises:
        OSError: the connection has ended.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)


def name_of(uid: int) -> str:
    """The user's name; the number where this machine knows no name for it, as in containers."""
    return known_name_of(uid) or str(uid)


def known_name_of(uid: int) -> str | None:
    """The user's name; None where this machine knows no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


class Policy(NamedTuple):
    """Who may log in: ``owner`` started rankd. ``is_shared``: other users may, too."""

    owner: int
    owner_name: str
    is_shared: bool = False

    def user(self, uid: int) -> str:
        """The name under which this user asks.

        Raises:
            Refused: ``not_shared``: only the owner may.
        """
        if uid == self.owner:
            return self.owner_name
        if not self.is_shared:
            message = (
                f"this rankd serves only '{self.owner_name}', who started it; `rankd up --share` would let others in"
            )
            raise Refused("not_shared", message, status=403)
        if (name := name_of(uid)) != self.owner_name:
            return name
        message = f"the name '{name}' is that of the administrator here; the system has it for user {uid}, too"
        raise Refused("not_permitted", message, status=403)
