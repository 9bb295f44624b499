"""The gateway: hands credentials to processes of this machine, over a Unix socket, for the user who they are.

The kernel says who is at the other end. Credentials last for some hours; a client that is still there asks again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from rankd.bus.account_update import system_bus, update_accounts
from rankd.bus.connection import Bus
from rankd.bus.health import answer_health
from rankd.bus.login import short_path
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.identity.credentials import source_of
from rankd.identity.site import REVOKED_FILE, Role, Site, read_site
from rankd.services.gateway.peer import Peer, Policy, peer_of
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import run_until, unless
from rankd.wire.codec import decode_strict, encode
from rankd.wire.login import Login, LoginRefused, LoginRequest

log = logging.getLogger("rankd.gateway")

ROLE = "gateway"
LASTS_S = 12 * 3600.0
"""How long credentials are valid."""
PATIENCE_S = 5.0
"""A client that does not ask within this time is cut off."""
MOST_BYTES = 4_096
AT_ONCE = 256
AT_ONCE_PER_USER = 32
"""Open connections, of all and of one user."""
COMPLAIN_EVERY_S = 60.0
OWNER_ONLY, EVERYBODY = 0o600, 0o666


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The broker, the directory of the site's secret, the socket, and who may use it."""

    nats: str
    creds: Path
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
    bus = Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds))
    await stack.enter_async_context(bus)
    system = await stack.enter_async_context(system_bus(options.nats, site, connect_timeout_s=None))
    return Gateway(options, site, bus, system, clock)


class Gateway:
    """Answers on the socket."""

    def __init__(self, options: GatewayOptions, site: Site, bus: Bus, system: Bus, clock: Clock) -> None:
        self._options = options
        self._policy = Policy(os.geteuid(), options.owner_name, options.is_shared)
        self._site = site
        self._bus = bus
        self._system = system
        self._clock = clock
        self._open = Counter[int]()
        self._complain_at: dict[int, float] = {}
        self._revoked_stamp = _stamp(options.site / REVOKED_FILE)
        self._known = set[str]()
        """Users whose accounts the broker has from us."""
        system.after_reconnect.append(self._forget_accounts)

    async def serve(self, stop: asyncio.Event) -> None:
        """Answer until ``stop``."""
        server = await asyncio.start_unix_server(self._on_connection, sock=_listening(self._options))
        async with server:
            await answer_health(self._bus, ROLE, self._probe)
            log.info("ready: %s", self._options.socket)
            await run_until(stop, self._bus.supervise(), self._system.supervise())
        self._options.socket.unlink(missing_ok=True)

    async def _probe(self) -> str:
        if not self._system.client.is_connected:
            raise Unavailable("bus_unavailable", f"no connection to {self._system.url}")
        return f"{sum(self._open.values())} connections"

    async def _forget_accounts(self) -> None:
        """The broker was started again, perhaps without what it knew."""
        self._known.clear()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client: one line in, one line out. Nothing that it does raises further than here."""
        with suppress(OSError):
            peer = peer_of(writer.get_extra_info("socket"))
            self._open[peer.uid] += 1
            try:
                async with asyncio.timeout(PATIENCE_S):
                    writer.write(encode(await self._answer(peer, reader)) + b"\n")
                    await writer.drain()
            except TimeoutError:
                self._complain(peer, f"asked nothing within {PATIENCE_S:g} s")
            finally:
                self._open[peer.uid] -= 1
                self._open += Counter()  # forgets users without a connection
        writer.close()

    async def _answer(self, peer: Peer, reader: asyncio.StreamReader) -> Login | LoginRefused:
        try:
            self._check_room(peer)
            await self._read(reader)
            return await self._login(peer)
        except RankdError as error:
            self._complain(peer, error.message)
            return LoginRefused(code=error.code, message=error.message)
        except Exception:  # one client's request must not end the service for the others
            log.exception("a login of user %d failed", peer.uid)
            return LoginRefused(code="internal_error", message="rankd failed on this login; the gateway's log says how")

    def _complain(self, peer: Peer, message: str) -> None:
        """Log a refusal; of one user at most one a minute, so that nobody fills the log."""
        now = time.monotonic()
        if now >= self._complain_at.get(peer.uid, 0.0):
            self._complain_at[peer.uid] = now + COMPLAIN_EVERY_S
            log.info("user %d, process %d: %s", peer.uid, peer.pid, message)

    def _look_for_revocations(self) -> None:
        """Another process writes them: a login with older ones would give back what was taken."""
        if (stamp := _stamp(self._options.site / REVOKED_FILE)) != self._revoked_stamp:
            self._site, self._revoked_stamp = read_site(self._options.site), stamp
            self._known.clear()

    def _check_room(self, peer: Peer) -> None:
        if self._open[peer.uid] > AT_ONCE_PER_USER or self._open.total() > AT_ONCE:
            raise Unavailable("busy", "too many processes log in at this moment; try again in a second")

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> LoginRequest:
        try:
            line = await reader.readuntil(b"\n")
            if len(line) > MOST_BYTES:
                raise Refused("too_large", f"a request has at most {MOST_BYTES} bytes", status=413)
            return decode_strict(line, LoginRequest)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise Refused("bad_request", f"the request can't be read: {error}") from None

    async def _login(self, peer: Peer) -> Login:
        user, now = self._policy.user(peer.uid), self._clock()
        role = Role.ADMIN if peer.uid == self._policy.owner else Role.USER
        self._look_for_revocations()
        if self._site.is_barred(role, user):
            raise Refused(
                "revoked", f"an administrator has revoked the access of '{user}'; ask for it again", status=403
            )
        if user not in self._known:
            await update_accounts(self._system, [self._site.account(role, user, now)])
            self._known.add(user)
        credentials = self._site.credentials(role, user, now, LASTS_S)
        log.info("credentials for %s '%s' (user %d, process %d)", role, user, peer.uid, peer.pid)
        return Login(user=user, nats=self._options.nats, creds=credentials.text(), expires_at=now + LASTS_S)


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes whenever a file is replaced; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _listening(options: GatewayOptions) -> socket.socket:
    """The socket, in the place of one that a process left which was killed.

    Raises:
        Refused: ``bad_path``: it can't be made.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        options.socket.unlink(missing_ok=True)
        umask = os.umask(0o777 & ~OWNER_ONLY)
        try:
            with short_path(options.socket) as path:
                listening.bind(path)
        finally:
            os.umask(umask)
        if options.is_shared:
            options.socket.chmod(EVERYBODY)
        listening.listen(AT_ONCE)
    except OSError as error:
        listening.close()
        message = f"no socket can be made at {options.socket}: {error.strerror or error}"
        raise Refused("bad_path", message, "socket") from None
    listening.setblocking(False)
    return listening
