"""The login socket of a node: its agent asks for users of this machine, if an administrator trusts the node.

The broker lets a node ask so only while it is on the administrator's list (``rankd node trust``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rankd.bus.connection import Bus
from rankd.core.errors import Refused
from rankd.services.runtime.login_socket import Answered, LoginSocket
from rankd.services.runtime.peer import Peer, known_name_of
from rankd.services.runtime.vouched_request import VouchedRequests
from rankd.wire.login import Login, LoginName, LoginRequest

log = logging.getLogger("rankd.agent")

ROOT = 0


class NodeDoor:
    """Lets the users of this machine ask, each as itself; see :class:`rankd.services.runtime.login_socket.Door`."""

    def __init__(self, bus: Bus, node: str) -> None:
        self._bus = bus
        self._node = node
        unheard = f"is rankd running, and may this node vouch for its users (`rankd node trust {node}`)?"
        self._requests = VouchedRequests(bus, node, unheard)

    def user(self, peer: Peer) -> str:
        """The name under which this process asks.

        Raises:
            Refused: it is root's, or this machine knows no name for its user: another machine may mean another user.
        """
        if peer.uid == ROOT:
            message = f"root of node '{self._node}' is nobody elsewhere; ask as a user, or with credentials (--creds)"
            raise Refused("not_permitted", message, "user", status=403)
        if (name := known_name_of(peer.uid)) is None:
            message = f"this machine has no name for user {peer.uid}; ask its administrator for one"
            raise Refused("not_permitted", message, "user", status=403)
        return name

    def name(self, user: str) -> LoginName:
        """What a client hears about itself."""
        return LoginName(user=user, nats=self._bus.url)

    async def login(self, peer: Peer, user: str) -> Login:  # noqa: ARG002 - the protocol's
        """Never gives credentials: only the site's secret makes them, and that is not on this machine."""
        message = f"node '{self._node}' carries requests only; this command needs credentials: ask an administrator"
        raise Refused("no_credentials", f"{message}, and give --nats URL --creds FILE", "creds", status=403)

    async def ask(self, user: str, asked: LoginRequest, payload: bytes) -> Answered:
        """The answer to a user's request."""
        return await self._requests.ask(user, asked, payload)


@asynccontextmanager
async def vouching(path: Path | None, bus: Bus, node: str) -> AsyncIterator[None]:
    """Serve the login socket while the block runs; without a path, nothing.

    Raises:
        Refused: ``bad_path``: the socket can't be made.
    """
    if path is None:
        yield
        return
    async with LoginSocket(path, NodeDoor(bus, node), log, is_shared=True).serving():
        log.info("users of this machine ask at %s", path)
        yield
