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
from rankd.core.metric.figure import Figure
from rankd.identity.credentials import Credentials, source_of
from rankd.identity.register import given
from rankd.identity.site import Role, Site, read_site
from rankd.services.gateway.enrolment import Enrolment
from rankd.services.gateway.issuer import Issuer
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import run_until, unless
from rankd.services.runtime.login_socket import Answered, LoginSocket
from rankd.services.runtime.metric.exported import Exported
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


async def run(
    options: GatewayOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
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
            await started.serve(stop, exported or Exported(ROLE))


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
    issuer = Issuer(options.site, system)
    await issuer.admit_all(clock())
    return Gateway(options, issuer, Buses(bus, system, asking), clock)


class Buses(msgspec.Struct, frozen=True):
    """The gateway's connections: as a service, as the system, and as the gateway."""

    service: Bus
    system: Bus
    asking: Bus


class Gateway:
    """Decides who may ask on the socket, gives credentials, and passes requests on."""

    def __init__(self, options: GatewayOptions, issuer: Issuer, buses: Buses, clock: Clock) -> None:
        self._options = options
        self._policy = Policy(os.geteuid(), options.owner_name, options.is_shared)
        self._issuer = issuer
        self._buses = buses
        self._clock = clock
        self._requests = VouchedRequests(buses.asking, HEAD, "is rankd running?")
        self._socket = LoginSocket(options.socket, self, log, is_shared=options.is_shared)

    async def serve(self, stop: asyncio.Event, exported: Exported) -> None:
        """Answer until ``stop``."""
        buses = self._buses
        async with self._socket.serving():
            await Enrolment(buses.service, self._issuer, self._clock).serve()
            await answer_health(buses.service, ROLE, self._probe)
            exported.add(lambda: [Figure("rankd_login_connections", self._socket.room.connections)])
            await exported.answer(buses.service)
            log.info("ready: %s", self._options.socket)
            supervising = [bus.supervise() for bus in (buses.service, buses.system, buses.asking)]
            await run_until(stop, *supervising, self._issuer.keep_known(self._clock))

    async def _probe(self) -> str:
        for bus in (self._buses.system, self._buses.asking):
            if not bus.client.is_connected:
                raise Unavailable("bus_unavailable", f"no connection to {bus.url}")
        return f"{self._socket.room.connections} connections"

    def user(self, peer: Peer) -> str:
        """See :class:`rankd.services.runtime.login_socket.Door`. A revoked user gets nothing, not even an answer."""
        user = self._policy.user(peer.uid)
        if self._issuer.site.is_barred(Role.USER, user):
            message = f"an administrator has revoked the access of '{user}'; ask for it again"
            raise Refused("revoked", message, status=403)
        return user

    def name(self, user: str) -> LoginName:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        return LoginName(user=user, nats=self._options.nats)

    async def login(self, peer: Peer, user: str) -> Login:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        role, now = self._role(peer, user), self._clock()
        site = await self._issuer.admit(role, user, now)
        credentials = site.credentials(role, user, now, LASTS_S)
        await self._note(role, user, now)
        log.info("credentials for %s '%s' (user %d, process %d)", role, user, peer.uid, peer.pid)
        return Login(user=user, nats=self._options.nats, creds=credentials.text(), expires_at=now + LASTS_S)

    async def ask(self, user: str, asked: LoginRequest, payload: bytes) -> Answered:
        """See :class:`rankd.services.runtime.login_socket.Door`."""
        return await self._requests.ask(user, asked, payload)

    def _role(self, peer: Peer, user: str) -> Role:
        return Role.ADMIN if peer.uid == self._policy.owner else self._issuer.register.role_of(user)

    async def _note(self, role: Role, user: str, now: float) -> None:
        """Register the user, at most once in half the time for which credentials last."""
        member, ends = self._issuer.register.member(role, user), now + LASTS_S
        if member is None or member.given_at is None or (member.until or ends) < ends - LASTS_S / 2:
            await self._issuer.change(lambda register: given(register, role, user, now, ends))
