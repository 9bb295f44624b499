"""Requests over the bus: who asks, the command's one connection, and repeating requests.

It imports asyncio, nats and uvloop only when a request is sent.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rankd.cli.common.place import Place, find
from rankd.core.errors import Refused, Unavailable

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from rankd.bus.connection import Bus
    from rankd.identity.credentials import Credentials, Source
    from rankd.identity.token import ReadClaims

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0
RETRY_PAUSE_S = 0.5
LARGEST_PAGE = 1_000
"""Rows of a page. This is the service's limit."""
LONGEST_USER = 256
"""The longest name of a user who asks, in characters. The name is part of the request's subject."""
AGENT_CREDENTIALS_S = 60.0
"""How long credentials last with which a command asks an agent for its health."""
RENEW_BEFORE_S = 60.0
"""How long before their end credentials of the gateway are replaced."""
UVLOOP_CLOSED = "the handler is closed"
"""How uvloop says that the other side has closed the connection on which nats-py writes."""


class Asker(NamedTuple):
    """Who asks, and whether as an administrator.

    ``is_claim``: the credentials are an ordinary user's. The intake then decides by its configuration.
    """

    user: str
    admin: bool = False
    is_claim: bool = False

    def subject(self, verb: str) -> str:
        """The subject of requests for ``verb``."""
        from rankd.wire.subject import admin_request, claiming_request, user_request

        if self.admin:
            return (claiming_request if self.is_claim else admin_request)(self.user, verb)
        return user_request(self.user, verb)


def asker(arguments: argparse.Namespace) -> Asker:
    """Who asks, and with which rights. One rule for all commands.

    The user is the one that the option or the environment names, then the user in the broker's URL, then the login
    name. Only ``--admin`` gives administrator's rights.

    Raises:
        Refused: ``usage``, ``bad_user``: the name is not a valid name of a user.
    """
    named = getattr(arguments, "asker", None)
    user = _named(named) or os.environ.get("RANKD_USER") or _connecting(find(arguments)) or login_name()
    if len(user) > LONGEST_USER or not user.isprintable():
        raise Refused("bad_user", f"the user who asks has to have 1 to {LONGEST_USER} printable characters", "user")
    is_admin = getattr(arguments, "admin", False)
    return Asker(user, is_admin, is_admin and _is_ordinary(find(arguments), user))


def _named(option: str | None) -> str | None:
    if option == "":
        raise Refused("usage", "the name of the user who asks is empty; leave it out to ask as yourself", "user")
    return option


def _is_ordinary(place: Place, user: str) -> bool:
    """Whether the credentials are this user's own, without an administrator's reach at the broker."""
    claims = _claims(place)
    return claims is not None and claims.role == "user" and claims.name == user


def _claims(place: Place) -> ReadClaims | None:
    """Whom the credentials are for, if there are any."""
    from rankd.identity.credentials import parse_credentials, read_credentials

    if place.creds is not None:
        return read_credentials(place.creds).claims()
    if place.login is not None:
        from rankd.bus.login import log_in

        return parse_credentials(log_in(place.login).creds).claims()
    return None


def _connecting(place: Place) -> str | None:
    """Who the credentials or the broker's URL say connects."""
    if place.creds is not None:
        from rankd.identity.credentials import read_credentials

        return read_credentials(place.creds).claims().name
    if place.login is not None:
        from rankd.bus.login import name_at

        return name_at(place.login).user
    if not place.nats or "@" not in place.nats:
        return None
    from rankd.bus.address import user_in

    return user_in(place.nats)


def login_name() -> str:
    """``$RANKD_USER`` if it is set, otherwise the name of the process's user."""
    if named := os.environ.get("RANKD_USER"):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers may run with ids that have no name
        return str(os.getuid())


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

    async def run() -> T:
        from rankd.bus.connection import Bus

        source = credentials or credentials_for(place)
        async with Bus(url, "command", connect_timeout_s=connect_timeout_s, credentials=source, tls=place.tls) as bus:
            if place.is_both and place.database is not None:
                await _check_site(bus, place.database, bus.user or login_name())
            return await action(bus)

    return run_quietly(url, run)


def credentials_for_agent(place: Place, agent: str) -> Source | None:
    """Credentials that reach an agent, which answers in its node's account only; None without the site's secret.

    The agent of simulated nodes has the services' account.
    """
    import time

    from rankd.identity.site import Role, read_site
    from rankd.services.up.command import SIMULATED

    if place.creds is None:
        return None
    try:
        site = read_site(place.creds.parent)
    except OSError:
        return None
    role, name = (Role.SERVICES, "") if agent == SIMULATED else (Role.NODE, agent)
    credentials = site.credentials(role, name, time.time(), AGENT_CREDENTIALS_S)
    return lambda: credentials


@contextmanager
def connecting(place: Place, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Iterator[tuple[Bus, asyncio.Runner]]:
    """A connection to the broker, and the event loop in which it lives: run in it what uses the connection.

    Raises:
        Unavailable: no broker is known, it does not answer, or the connection was lost.
        Refused: ``usage``: broker and database were named, and are of different sites.
    """
    import asyncio

    import uvloop

    from rankd.bus.connection import Bus

    url = place.need_nats()

    async def connected() -> Bus:
        credentials = credentials_for(place)
        bus = Bus(url, "command", connect_timeout_s=connect_timeout_s, credentials=credentials, tls=place.tls)
        return await bus.__aenter__()

    with _quiet(url), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        bus = runner.run(connected())
        try:
            if place.is_both and place.database is not None:
                runner.run(_check_site(bus, place.database, bus.user or login_name()))
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
    from rankd.identity.credentials import read_credentials
    from rankd.services.up.command import SERVICES_CREDENTIALS

    path = creds.with_name(SERVICES_CREDENTIALS)
    if not os.access(path, os.R_OK):
        message = f"the credentials in {creds} are those of '{own}'; give those of '{user}' with --creds"
        raise Refused("not_permitted", message, "creds", status=403)
    return lambda: read_credentials(path)


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
