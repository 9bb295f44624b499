"""The connection to a broker, and repeating what is asked over it.

It imports asyncio, nats and uvloop only when it connects.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rankd.bus.lean_import import import_lean
from rankd.client.asker import login_name
from rankd.core.errors import Refused, Unavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path

    from rankd.bus.connection import Bus
    from rankd.client.place import Place
    from rankd.identity.credentials import Credentials, Source

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0
RETRY_PAUSE_S = 0.5
RENEW_BEFORE_S = 60.0
"""How long before their end credentials of the gateway are replaced."""
UVLOOP_CLOSED = "the handler is closed"
"""How uvloop says that the other side has closed the connection on which nats-py writes."""


def with_bus(
    place: Place,
    action: Callable[[Bus], Awaitable[T]],
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    credentials: Source | None = None,
) -> T:
    """Run ``action`` with a connection, in an event loop of its own.

    ``credentials`` None means those of the place.

    Raises:
        Unavailable: no broker is known, it does not answer, or the connection was lost.
        Refused: ``usage``: broker and database were named, and are of different sites.
    """
    url = place.need_nats()
    import_lean()

    async def run() -> T:
        from rankd.bus.connection import Bus

        source = credentials or credentials_for(place)
        async with Bus(url, "command", connect_timeout_s=connect_timeout_s, credentials=source, tls=place.tls) as bus:
            if place.is_both and place.database is not None:
                await check_site(bus, place.database, bus.user or login_name())
            return await action(bus)

    return run_quietly(url, run)


@contextmanager
def connecting(place: Place, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Iterator[tuple[Bus, asyncio.Runner]]:
    """A connection to the broker, and the event loop in which it lives: run in it what uses the connection.

    Raises:
        Unavailable: no broker is known, it does not answer, or the connection was lost.
        Refused: ``usage``: broker and database were named, and are of different sites.
    """
    url = place.need_nats()
    import_lean()
    import asyncio

    import uvloop

    from rankd.bus.connection import Bus

    async def connected() -> Bus:
        credentials = credentials_for(place)
        bus = Bus(url, "command", connect_timeout_s=connect_timeout_s, credentials=credentials, tls=place.tls)
        return await bus.__aenter__()

    with _quiet(url), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        bus = runner.run(connected())
        try:
            if place.is_both and place.database is not None:
                runner.run(check_site(bus, place.database, bus.user or login_name()))
            yield bus, runner
        finally:
            runner.run(bus.__aexit__(None, None, None))


def run_quietly(url: str, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run what asks the broker at ``url`` in an event loop of its own; errors only, no log.

    Raises:
        Unavailable: the broker went away meanwhile.
    """
    import uvloop

    with _quiet(url):
        return uvloop.run(run())


@contextmanager
def _quiet(url: str) -> Iterator[None]:
    """Errors only, no log.

    Raises:
        Unavailable: the broker at ``url`` went away meanwhile.
    """
    import logging

    from rankd.bus.connection import LOST

    noisy = [logging.getLogger(name) for name in ("rankd", "nats", "asyncio")]
    for logger in noisy:  # the command prints its own message, once
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    try:
        yield
    except BrokenPipeError:  # the reader of our output has gone
        raise
    except LOST as error:
        raise _lost(url, error) from error
    except RuntimeError as error:
        if UVLOOP_CLOSED not in str(error):
            raise
        raise _lost(url, error) from error
    finally:
        for logger in noisy:  # an agent that has enrolled goes on, with a log
            logger.propagate = True


def _lost(url: str, error: Exception) -> Unavailable:
    from rankd.bus.address import without_secret

    message = f"the broker {without_secret(url)} went away ({type(error).__name__}); try again"
    return Unavailable("bus_unavailable", message)


def credentials_for(place: Place) -> Source | None:
    """The credentials that a command connects with; None where none were named or found.

    A user who can read the services' credentials beside them may act as any user.

    Raises:
        Refused: ``not_permitted``: they are another user's.
        Unavailable: they can't be read.
    """
    if place.creds is None:
        return None if place.login is None else _from_gateway(place.login, place)
    from rankd.identity.credentials import read_credentials, source_of

    own = read_credentials(place.creds).claims()
    if place.acts_as in (None, own.name):
        return source_of(place.creds)
    return _stand_in(place.creds, str(place.acts_as), own.name)


def _from_gateway(path: Path, place: Place) -> Source:
    """Credentials of the user who runs this, asked for again when they are about to end."""
    import time

    from rankd.bus.login import log_in, log_in_again
    from rankd.identity.credentials import parse_credentials

    login = log_in(path)
    if place.acts_as not in (None, login.user):
        raise Refused("not_permitted", f"you are '{login.user}' here, not '{place.acts_as}'", "user", status=403)

    def credentials() -> Credentials:
        nonlocal login
        if time.time() > login.expires_at - RENEW_BEFORE_S:
            login = log_in_again(path)
        return parse_credentials(login.creds)

    return credentials


def _stand_in(creds: Path, user: str, own: str) -> Source:
    """Credentials that reach every user's subjects: those of the services, which the owner of the site has, too.

    Raises:
        Refused: ``not_permitted``: they are not beside the own ones, so this user does not own the site.
    """
    from rankd.identity.credentials import SERVICES_CREDENTIALS, read_credentials

    path = creds.with_name(SERVICES_CREDENTIALS)
    if not os.access(path, os.R_OK):
        message = f"the credentials in {creds} are those of '{own}'; give those of '{user}' with --creds"
        raise Refused("not_permitted", message, "creds", status=403)
    return lambda: read_credentials(path)


async def check_site(bus: Bus, database: Path, user: str) -> None:
    """Check that the rankd at this broker keeps its records in this file.

    Raises:
        Refused: ``usage``: it uses another database.
        Unavailable: it does not answer.
    """
    from rankd.store.engine.site import site_of
    from rankd.wire.encoding import encode
    from rankd.wire.site import Site
    from rankd.wire.subject import user_request

    there = await bus.request(user_request(user, "site.show"), encode({}), Site)
    if site_of(database) != there:
        message = f"the database {database} is not the one of the rankd at {bus.url}: name one of them, not both"
        raise Refused("usage", message, "db")


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
