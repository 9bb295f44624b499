"""Requests over the bus: who asks, the command's one connection, and repeating requests.

It imports asyncio, nats and uvloop only when a request is sent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rankd.cli.common.place import Place, find
from rankd.core.errors import Refused, Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import msgspec

    from rankd.bus.connection import Bus

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0
RETRY_PAUSE_S = 0.5
LARGEST_PAGE = 1_000
"""Rows of a page. This is the service's limit."""
LONGEST_USER = 256
"""The longest name of a user who asks, in characters. The name is part of the request's subject."""
UVLOOP_CLOSED = "the handler is closed"
"""How uvloop says that the other side has closed the connection on which nats-py writes."""


class Asker(NamedTuple):
    """Who asks, and whether as an administrator."""

    user: str
    admin: bool = False

    def subject(self, verb: str) -> str:
        """The subject of requests for ``verb``."""
        from rankd.wire.subject import admin_request, user_request

        return admin_request(self.user, verb) if self.admin else user_request(self.user, verb)


def asker(arguments: argparse.Namespace) -> Asker:
    """Who asks, and with which rights. One rule for all commands.

    The user is the one that the option or the environment names, then the user in the broker's URL, then the login
    name. Only ``--admin`` gives administrator's rights.

    Raises:
        Refused: ``usage``, ``bad_user``: the name is not a valid name of a user.
    """
    named = getattr(arguments, "asker", None)
    user = _named(named) or os.environ.get("RANKD_USER") or _connecting_with(find(arguments).nats) or login_name()
    if len(user) > LONGEST_USER or not user.isprintable():
        raise Refused("bad_user", f"the user who asks has to have 1 to {LONGEST_USER} printable characters", "user")
    return Asker(user, getattr(arguments, "admin", False))


def _named(option: str | None) -> str | None:
    if option == "":
        raise Refused("usage", "the name of the user who asks is empty; leave it out to ask as yourself", "user")
    return option


def _connecting_with(url: str | None) -> str | None:
    if not url or "@" not in url:
        return None
    from rankd.bus.address import user_in

    return user_in(url)


def login_name() -> str:
    """``$RANKD_USER`` if it is set, otherwise the name of the process's user."""
    if named := os.environ.get("RANKD_USER"):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers may run with ids that have no name
        return str(os.getuid())


def with_bus(place: Place, action: Callable[[Bus], Awaitable[T]], *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> T:
    """Run ``action`` with a connection, in an event loop of its own.

    Raises:
        Unavailable: no broker is known, it does not answer, or the connection was lost.
        Refused: ``usage``: broker and database were named, and are of different sites.
    """
    url = place.need_nats()
    import logging

    import uvloop

    from rankd.bus.connection import LOST, Bus

    for noisy in ("rankd", "nats", "asyncio"):  # the command prints its own message, once
        logging.getLogger(noisy).addHandler(logging.NullHandler())
        logging.getLogger(noisy).propagate = False

    async def run() -> T:
        async with Bus(url, "command", connect_timeout_s=connect_timeout_s) as bus:
            if place.is_both and place.database is not None:
                await _check_site(bus, place.database, _connecting_with(url) or login_name())
            return await action(bus)

    try:
        return uvloop.run(run())
    except BrokenPipeError:  # the reader of our output has gone
        raise
    except LOST as error:
        raise _lost(url, error) from error
    except RuntimeError as error:
        if UVLOOP_CLOSED not in str(error):
            raise
        raise _lost(url, error) from error


def _lost(url: str, error: Exception) -> Unavailable:
    from rankd.bus.address import without_secret

    message = f"the broker {without_secret(url)} went away ({type(error).__name__}); try again"
    return Unavailable("bus_unavailable", message)


async def _check_site(bus: Bus, database: Path, user: str) -> None:
    """Check that the rankd at this broker keeps its records in this file.

    Raises:
        Refused: ``usage``: it uses another database.
        Unavailable: it does not answer.
    """
    from rankd.store.engine.site import site_of
    from rankd.wire.codec import encode
    from rankd.wire.site import Site
    from rankd.wire.subject import user_request

    there = await bus.request(user_request(user, "site.show"), encode({}), Site)
    if site_of(database) != there:
        message = f"the database {database} is not the one of the rankd at {bus.url}: name one of them, not both"
        raise Refused("usage", message, "db")


def ask(arguments: argparse.Namespace, verb: str, message: msgspec.Struct, kind: type[T]) -> T:
    """Send one request, and return its answer."""
    from rankd.wire.codec import encode

    subject, payload = asker(arguments).subject(verb), encode(message)

    async def action(bus: Bus) -> T:
        return await bus.request(subject, payload, kind)

    return with_bus(find(arguments), action)


def ask_pages(
    place: Place, subject: str, name: str, request: dict[str, Any], most: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of the list ``name`` from all pages, ``most`` at most, and the first page's answer."""
    from rankd.wire.codec import encode

    async def action(bus: Bus) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        first = answer = await bus.request(subject, encode(request), dict)
        rows = list(answer.get(name) or ())
        while (behind := answer.get("next")) and len(rows) < most:
            page = {**request, **behind, "limit": min(most - len(rows), LARGEST_PAGE)}
            answer = await bus.request(subject, encode(page), dict)
            rows += answer.get(name) or ()
        return rows[:most], first

    return with_bus(place, action)


async def repeat(action: Callable[[], Awaitable[T]], until: float) -> T:
    """Repeat the action while it fails with ``Unavailable``, until ``time.monotonic()`` reaches ``until``.

    Raises:
        Unavailable: the last error after that time, or ``no_answer`` if there was none.
    """
    import asyncio
    import time

    last = Unavailable("no_answer", "rankd did not answer in time; is it running?")
    while True:
        left = until - time.monotonic()
        try:
            async with asyncio.timeout(max(left, 0.0)):
                return await action()
        except TimeoutError:
            raise last from None
        except Unavailable as error:
            last = error
            if time.monotonic() + RETRY_PAUSE_S >= until:
                raise
            await asyncio.sleep(RETRY_PAUSE_S)
