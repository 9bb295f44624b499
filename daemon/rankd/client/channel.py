"""Requests one after the other: over the login socket where the asker may ask there, and else over the broker.

A request over the socket needs no NATS client and no event loop, so a command that asks there starts fast. The socket
carries a user's own requests. Those of administrators, those for another user, and those to a broker that was named go
over the broker, with credentials.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from rankd.client.asker import process_user
from rankd.client.session import CONNECT_TIMEOUT_S, RETRY_PAUSE_S, connecting
from rankd.core.errors import Unavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rankd.bus.connection import Bus
    from rankd.client.asker import Asker
    from rankd.client.place import Place

T = TypeVar("T")

TIMEOUT_S = 10.0
LARGEST_PAGE = 1_000
"""Rows of a page. This is the service's limit."""
GATEWAY_PAUSE_S = 0.05
"""The pause before a gateway is asked again that does not listen yet, or was started again, or has no room."""
AGAIN = frozenset({"no_gateway", "busy"})
UNREADABLE = (ValueError, RecursionError)
"""The errors of decoding bytes that are not the expected message, as in :mod:`rankd.wire.encoding`."""


class Channel(Protocol):
    """Sends requests of one user. ``largest``: the bytes that a request may have."""

    @property
    def largest(self) -> int:
        """The bytes that a request may have."""

    def request(self, verb: str, payload: bytes, kind: type[T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Send a request and decode the answer.

        Raises:
            Refused, Unavailable: the error that the other side answered; there is no answer, or no other side.
        """


class SocketChannel:
    """Asks at a login socket: each request is a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def largest(self) -> int:
        """See :class:`Channel`."""
        from rankd.wire.login_size import MOST_REQUEST_BYTES

        return MOST_REQUEST_BYTES

    def request(self, verb: str, payload: bytes, kind: type[T], *, timeout_s: float = TIMEOUT_S) -> T:
        """See :class:`Channel`. A gateway that does not listen, or is busy, is asked again for a moment."""
        from rankd.bus.login import ask_at

        until = time.monotonic() + min(CONNECT_TIMEOUT_S, timeout_s)
        while True:
            try:
                answer = ask_at(self.path, verb, payload, timeout_s=timeout_s)
            except Unavailable as error:
                if error.code not in AGAIN or time.monotonic() >= until:
                    raise
                time.sleep(GATEWAY_PAUSE_S)
            else:
                return decoded(verb, answer.payload, answer.status, kind)


def decoded(verb: str, payload: bytes, status: str | None, kind: type[T]) -> T:
    """The answer in this form. ``dict``: any object, decoded without msgspec, whose import takes long.

    Raises:
        Refused, Unavailable: it is an error; ``unreadable_answer``.
    """
    if status is None and kind is dict:
        return cast("T", _object(verb, payload))
    import msgspec

    from rankd.wire.answer import ErrorBody, error_of

    try:
        if status is None:
            return msgspec.json.decode(payload, type=kind)
        refused = error_of(status, msgspec.json.decode(payload, type=ErrorBody))
    except UNREADABLE as error:
        raise _unreadable(verb, error) from error
    raise refused


def _object(verb: str, payload: bytes) -> dict[str, Any]:
    import json

    try:
        found = json.loads(payload.decode())
    except UNREADABLE as error:
        raise _unreadable(verb, error) from error
    if not isinstance(found, dict):
        raise _unreadable(verb, "it is not an object")
    return found


def _unreadable(verb: str, why: object) -> Unavailable:
    return Unavailable("unreadable_answer", f"the answer to '{verb}' can't be read: {why}")


class BusChannel:
    """Asks over a connection to the broker, which lives in an event loop that runs while a request is waited for."""

    def __init__(self, bus: Bus, who: Asker, runner: asyncio.Runner) -> None:
        self._bus = bus
        self._who = who
        self._runner = runner

    @property
    def largest(self) -> int:
        """See :class:`Channel`."""
        return self._bus.client.max_payload

    def request(self, verb: str, payload: bytes, kind: type[T], *, timeout_s: float = TIMEOUT_S) -> T:
        """See :class:`Channel`."""
        asking = self._bus.request(self._who.subject(verb), payload, kind, timeout_s=timeout_s)
        return self._runner.run(asking)


@contextmanager
def open_channel(place: Place, who: Asker, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Iterator[Channel]:
    """The way on which this asker's requests go from here.

    Raises:
        Unavailable: no broker is known, or it does not answer.
        Refused: the credentials do not let this asker in.
    """
    if not who.admin and (own := own_channel(place)) is not None:
        yield own
        return
    with connecting(place, connect_timeout_s=connect_timeout_s) as (bus, runner):
        yield BusChannel(bus, who, runner)


def own_channel(place: Place) -> SocketChannel | None:
    """The way over the login socket, if the user who runs this process asks there as themselves; otherwise None."""
    return SocketChannel(place.socket) if place.socket is not None and _is_own(place) else None


def _is_own(place: Place) -> bool:
    """Whether the kernel would say there who asks: no other user was named, and the socket is for this process.

    A job finds its own user in ``$RANKD_USER``. What it submits is that user's as well.
    """
    if place.socket is None or (place.acts_as is not None and place.acts_as != process_user()):
        return False
    if place.login is not None:
        return True
    try:
        return place.socket.stat().st_uid == os.geteuid()
    except OSError:
        return False


def repeated(action: Callable[[float], T], until: float) -> T:
    """Repeat the action while it fails with ``Unavailable``, until ``time.monotonic()`` reaches ``until``.

    The action gets the seconds that are left.

    Raises:
        Unavailable: the last error after that time, or ``no_answer`` if there was none.
    """
    last = Unavailable("no_answer", "rankd did not answer in time; is it running?")
    while (left := until - time.monotonic()) > 0:
        try:
            return action(left)
        except Unavailable as error:
            last = error
            if time.monotonic() + RETRY_PAUSE_S >= until:
                raise
            time.sleep(RETRY_PAUSE_S)
    raise last


def pages(
    channel: Channel, verb: str, name: str, request: dict[str, Any], most: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of the list ``name`` from all pages, ``most`` at most, and the first page's answer."""
    rows: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for answer in each_page(channel, verb, request, name, most):
        first = first or answer
        rows += answer.get(name) or ()
    return rows[:most], first


def each_page(
    channel: Channel, verb: str, request: dict[str, Any], name: str, most: int | None = None
) -> Iterator[dict[str, Any]]:
    """The answers, until their lists ``name`` have ``most`` rows; None: all. Only the first one counts all rows."""
    from rankd.wire.encoding import encode

    answer = channel.request(verb, encode(request), dict[str, Any])
    yield answer
    request, left = {field: value for field, value in request.items() if field != "count"}, most
    while behind := answer.get("next"):
        if left is not None and (left := left - len(answer.get(name) or ())) <= 0:
            return
        size = LARGEST_PAGE if left is None else min(left, LARGEST_PAGE)
        answer = channel.request(verb, encode({**request, **behind, "limit": size}), dict[str, Any])
        yield answer
