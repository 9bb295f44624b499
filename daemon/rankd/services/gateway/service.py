"""The gateway: lets processes of this machine ask, over a Unix socket, as the users who they are.

It passes requests on, and hands out credentials, which last for some hours; a client that is still there asks again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from rankd.bus.account_update import system_bus, update_accounts
from rankd.bus.connection import Bus
from rankd.bus.health import answer_health
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import Credentials, source_of
from rankd.identity.site import REVOKED_FILE, Role, Site, read_site
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import run_until, unless
from rankd.services.runtime.login_socket import Answered, LoginSocket
from rankd.services.runtime.peer import Peer, Policy
from rankd.services.runtime.vouched_request import VouchedRequests
from rankd.wire.login import Login, LoginName, LoginRequest
from rankd.wire.subject import HEAD

log = logging.getLogger("rankd.gateway")

ROLE = "gateway"
LASTS_S = 12 * 3600.0
"""How long credentials are valid."""
OWN_LAST_S = 24 * 3600.0
"""How long those are valid with which the gateway itself asks; it takes new ones at every connection."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The broker, the directory of the site's secret, the socket, and who may use it."""

    nats: str
    creds: Path
    tls: TlsFiles = TlsFiles()
    site: Path
    socket: Path
    owner_name: str
    is_shared: bool = False


async def run(options: GatewayOptions, stop: asyncio.Event, clock: Clock = time.time) -> None:
    """Serve until ``stop``.

    Raises:
        Refused: ``bad_secret``, ``bad_path``: the site's secret or the socket can't be used.
    """
    try:
        site = read_site(options.site)
    except OSError as error:
        message = f"the site's secret in {options.site} can't be read: {error.strerror or error}"
        raise Refused("bad_secret", message, "site") from None
    async with AsyncExitStack() as stack:
        started = await unless(stop, _start(options, site, stack, clock))
        if started is not None:
            await started.serve(stop)


async def _start(options: GatewayOptions, site: Site, stack: AsyncExitStack, clock: Clock) -> Gateway:
    """Connect: as a service for the health, as the system for accounts, and as the gateway for requests of users."""
    bus = Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    await stack.enter_async_context(bus)
    system = system_bus(options.nats, site, connect_timeout_s=None, tls=options.tls)
    await stack.enter_async_context(system)

    def own() -> Credentials:
        return site.credentials(Role.GATEWAY, HEAD, clock(), OWN_LAST_S)

    await update_accounts(system, [site.account(Role.GATEWAY, HEAD, clock())])
    asking = Bus(options.nats, f"{ROLE} {HEAD}", connect_timeout_s=None, credentials=own, tls=options.tls)
    await stack.enter_async_context(asking)
    return Gateway(options, site, Buses(bus, system, asking), clock)


class Buses(msgspec.Struct, frozen=True):
    """The gateway's connections: as a service, as the system, and as the gateway."""

    service: Bus
    system: Bus
    asking: Bus


class Gateway:
    """Decides who may ask on the socket, gives credentials, and passes requests on."""

    def __init__(self, options: GatewayOptions, site: Site, buses: Buses, clock: Clock) -> None:
        self._options = options
        self._policy = Policy(os.geteuid(), options.owner_name, options.is_shared)
        self._site = site
        self._buses = buses
        self._clock = clock
        self._requests = VouchedRequests(buses.asking, HEAD, "is rankd running?")
        self._socket = LoginSocket(options.socket, self, log, is_shared=options.is_shared)
        self._revoked_stamp = _stamp(options.site / REVOKED_FILE)
        self._known = set[str]()
        """Users whose accounts the broker has from us."""
        buses.system.after_reconnect.append(self._forget_accounts)

    async def serve(self, stop: asyncio.Event) -> None:
        """Answer until ``stop``."""
        buses = self._buses
        async with self._socket.serving():
            await answer_health(buses.service, ROLE, self._probe)
            log.info("ready: %s", self._options.socket)
            await run_until(stop, buses.service.supervise(), buses.system.supervise(), buses.asking.supervise())

    async def _probe(self) -> str:
        for bus in (self._buses.system, self._buses.asking):
            if not bus.client.is_connected:
                raise Unavailable("bus_unavailable", f"no connection to {bus.url}")
        return f"{self._socket.room.connections} connections"

    async def _forget_accounts(self) -> None:
        """The broker was started again, perhaps without what it knew."""
        self._known.clear()

    def user(self, peer: Peer) -> str:
        """See :class:`rankd.services.runtime.login_socket.Door`. A revoked user gets nothing, not even an answer."""
        user = self._policy.user(peer.uid)
        self._look_for_revocations()
        if self._site.is_barred(self._role(peer), user):
            message = f"an administrator has revoked the access of '{user}'; ask for it again"
            raise Refused("revoked", message, status=403)
        return user

    def name(self, user: str) -> LoginName:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        return LoginName(user=user, nats=self._options.nats)

    async def login(self, peer: Peer, user: str) -> Login:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        role, now = self._role(peer), self._clock()
        if user not in self._known:
            await update_accounts(self._buses.system, [self._site.account(role, user, now)])
            self._known.add(user)
        credentials = self._site.credentials(role, user, now, LASTS_S)
        log.info("credentials for %s '%s' (user %d, process %d)", role, user, peer.uid, peer.pid)
        return Login(user=user, nats=self._options.nats, creds=credentials.text(), expires_at=now + LASTS_S)

    async def ask(self, user: str, asked: LoginRequest, payload: bytes) -> Answered:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        return await self._requests.ask(user, asked, payload)

    def _role(self, peer: Peer) -> Role:
        return Role.ADMIN if peer.uid == self._policy.owner else Role.USER

    def _look_for_revocations(self) -> None:
        """Another process writes them: a login with older ones would give back what was taken."""
        if (stamp := _stamp(self._options.site / REVOKED_FILE)) != self._revoked_stamp:
            self._site, self._revoked_stamp = read_site(self._options.site), stamp
            self._known.clear()


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes whenever a file is replaced; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
