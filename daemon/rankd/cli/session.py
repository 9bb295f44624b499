"""Asking over the bus: who asks, one connection per command, requests that may be repeated.

Imports asyncio, nats and uvloop only when something is asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rankd.cli.place import Place, find
from rankd.core.errors import Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    import msgspec

    from rankd.bus.connection import Bus

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0
RETRY_PAUSE_S = 0.5


class Asker(NamedTuple):
    """Who asks, and whether as an administrator."""

    user: str
    admin: bool = False

    def subject(self, verb: str) -> str:
        """Where to ask for ``verb``."""
        from rankd.wire.subject import admin_request, user_request

        return admin_request(self.user, verb) if self.admin else user_request(self.user, verb)


def asker(arguments: argparse.Namespace) -> Asker:
    """The user named by flag or environment, else the one who connects to the broker, else the login name."""
    named = getattr(arguments, "asker", None) or os.environ.get("RANKD_USER")
    return Asker(named or _connecting(arguments) or login_name(), getattr(arguments, "admin", False))


def _connecting(arguments: argparse.Namespace) -> str | None:
    url = getattr(arguments, "nats", None) or os.environ.get("RANKD_NATS")
    if not url or "@" not in url:
        return None
    from rankd.bus.address import user_in

    return user_in(url)


def login_name() -> str:
    """``$RANKD_USER``, else the name of the process's user."""
    if named := os.environ.get("RANKD_USER"):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers run with ids that no one has named
        return str(os.getuid())


def with_bus(place: Place, action: Callable[[Bus], Awaitable[T]], *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> T:
    """Run ``action`` with a connection, in an event loop of its own.

    Raises:
        Unavailable: no broker is known, or it does not answer.
    """
    url = place.need_nats()
    import logging

    import uvloop

    from rankd.bus.connection import Bus

    for noisy in ("rankd", "nats"):  # a command says what went wrong once, in its own words
        logging.getLogger(noisy).addHandler(logging.NullHandler())

    async def run() -> T:
        async with Bus(url, "command", connect_timeout_s=connect_timeout_s) as bus:
            return await action(bus)

    return uvloop.run(run())


def ask(arguments: argparse.Namespace, verb: str, message: msgspec.Struct, kind: type[T]) -> T:
    """One request and its answer."""
    from rankd.wire.codec import encode

    subject, payload = asker(arguments).subject(verb), encode(message)

    async def action(bus: Bus) -> T:
        return await bus.request(subject, payload, kind)

    return with_bus(find(arguments), action)


async def repeat(action: Callable[[], Awaitable[T]], until: float) -> T:
    """Repeat what may be repeated while the other side is away, until the loop's clock shows ``until``.

    Raises:
        Unavailable: the last one, once the time is over.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    while True:
        try:
            return await action()
        except Unavailable:
            if loop.time() + RETRY_PAUSE_S >= until:
                raise
            await asyncio.sleep(RETRY_PAUSE_S)
