"""The page: shows the records to people's browsers, live, and passes on what they want to change, as themselves.

It has no rights of its own. It reads the database, and can't write it; without one, it asks for what its users see.
All requests are on the subjects of the gateway ``web``, for users whom it has authenticated.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.health import answer_health
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import source_of, write_private
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import run_until, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.web.application import application
from rankd.services.web.asking import Asking
from rankd.services.web.export import export
from rankd.services.web.listener import BACKLOG, Address, Listener, bind
from rankd.services.web.live import Live
from rankd.services.web.page import Page, Site
from rankd.services.web.rank_history import remember_ranks
from rankd.services.web.records import BusRecords, DatabaseRecords, Records
from rankd.services.web.session import KEY_BYTES
from rankd.services.web.sign_in_link import new_link
from rankd.services.web.signed_out import SignedOut
from rankd.wire.subject import EVENT_RANKING, WAKE, WEB, inbox_prefix

log = logging.getLogger("rankd.web")

KEY_FILE, PORT_FILE = "web.key", "web.port"
SETTINGS_EVERY_S = 2.0


class WebOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The broker, the database (None: it asks over the bus), where to listen, and who may look.

    ``gateway_creds``: those with which it asks for users. ``state``: a private directory for the key of sessions and
    the link. ``owner``: whom the link signs in. ``hosts``: further names under which the page answers.
    """

    nats: str
    creds: Path | None = None
    gateway_creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str | None = None
    state: Path
    owner: str
    address: Address
    hosts: tuple[str, ...] = ()
    is_read_only: bool = False


async def run(
    options: WebOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
    """Serve until ``stop``.

    Raises:
        Refused: ``bad_listen``, ``bad_certificate``.
        OSError: the directory can't be written.
    """
    async with AsyncExitStack() as stack:
        started = await unless(stop, _start(options, stack, clock))
        if started is not None:
            page, listener, buses = started
            export(exported or Exported(WEB), page, buses[0], options.db, stack)
            log.info("ready: %s", page.site.base)
            await run_until(
                stop, listener.serve(), page.live.run(), _follow_settings(page), remember_ranks(page),
                *(bus.supervise() for bus in buses), drain=lambda: _end(page, listener),
            )  # fmt: skip


async def _start(options: WebOptions, stack: AsyncExitStack, clock: Clock) -> tuple[Page, Listener, list[Bus]]:
    options.state.mkdir(mode=0o700, parents=True, exist_ok=True)  # beside an external broker nobody else makes it
    listening = bind(_remembered(options.state, options.address))
    stack.callback(listening.close)
    port = listening.getsockname()[1]
    _write_port(options.state, port)
    bus = Bus(
        options.nats, WEB, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls,
        inbox=None if options.creds is None else inbox_prefix(WEB),
    )  # fmt: skip
    await stack.enter_async_context(bus)
    buses, asking_bus = [bus], bus
    if options.gateway_creds is not None:
        credentials = source_of(options.gateway_creds)
        asking_bus = Bus(
            options.nats, f"{WEB} gateway", connect_timeout_s=None, credentials=credentials, tls=options.tls
        )
        await stack.enter_async_context(asking_bus)
        buses.append(asking_bus)
    signed_out = SignedOut(options.state)
    site, asking = _site(options, port, signed_out), Asking(asking_bus, is_gateway=len(buses) > 1)
    records: Records = BusRecords(asking, site.owner) if options.db is None else DatabaseRecords(options.db)
    stack.callback(records.close)
    page = Page(site, records, Live(records), asking, clock, signed_out)
    await page.read_settings()
    await page.live.wake.listen(bus, WAKE, EVENT_RANKING)
    listening.listen(BACKLOG)  # browsers that have the link get an answer, even if it takes a while
    new_link(options.state, site.base)

    async def probe() -> str:
        if page.live.problem is not None:
            raise Unavailable(records.where, page.live.problem)
        return f"{site.base}, {page.live.tabs} open tabs"

    await answer_health(bus, WEB, probe)
    return page, Listener(application(page), listening, options.address), buses


def _site(options: WebOptions, port: int, signed_out: SignedOut) -> Site:
    """What the pages have to know of where they are served."""
    host = options.address.host
    named = options.hosts[0] if host in _EVERYWHERE and options.hosts else host
    shown = f"[{named}]" if ":" in named and not named.startswith("[") else named
    names = {host, *options.hosts} | ({"localhost", "127.0.0.1", "[::1]"} if host in _LOOPBACK else set())
    names = {f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names}
    hosts = frozenset(entry for name in names for entry in (f"{name}:{port}".lower(), *_bare(name, options)))
    return Site(
        base=f"{options.address.scheme}://{shown}:{port}",
        hosts=hosts,
        key=_key(options.state, signed_out),
        state=options.state,
        owner=options.owner,
        is_read_only=options.is_read_only,
        is_encrypted=options.address.cert is not None,
        is_local=host in _LOOPBACK and not options.hosts,
        is_private=host in _LOOPBACK or options.address.cert is not None,
    )


_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses that no browser can ask
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _bare(name: str, options: WebOptions) -> list[str]:
    """A name that was given as an option also counts without the port: a proxy listens on another one."""
    return [name.lower()] if name.strip("[]") in options.hosts or name in options.hosts else []


def _key(directory: Path, signed_out: SignedOut) -> bytes:
    """The key of sessions. It is new without a file of one, or if the list of signed-out sessions can't be read."""
    path = directory / KEY_FILE
    with suppress(OSError, ValueError):
        signed_out.read()
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
        if len(key) == KEY_BYTES:
            return key
    key = secrets.token_bytes(KEY_BYTES)
    write_private(path, key.hex() + "\n")
    return key


def _remembered(directory: Path, address: Address) -> Address:
    """The port that was asked for; else the last one if it is free, so that open tabs find the page again."""
    if address.port:
        return address
    with suppress(OSError, ValueError, Refused):
        last = msgspec.structs.replace(address, port=int((directory / PORT_FILE).read_text()))
        bind(last).close()
        return last
    return address


def _write_port(directory: Path, port: int) -> None:
    """Remember the port."""
    write_private(directory / PORT_FILE, f"{port}\n")


async def _follow_settings(page: Page) -> None:
    """Use the configuration in force, as far as it is about the page."""
    while True:
        await asyncio.sleep(SETTINGS_EVERY_S)
        await page.read_settings()


async def _end(page: Page, listener: Listener) -> None:
    page.live.stop()
    listener.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(3.0):
            await listener.ended.wait()
