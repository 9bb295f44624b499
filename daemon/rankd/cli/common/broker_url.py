"""Where other machines reach the broker of a ``rankd up``: the URLs in an invitation."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.client.place import Place

ELSEWHERE = ("192.0.2.1", 9)
"""An address that nobody has (RFC 5737). Nothing is sent to it: the kernel only says from where it would be."""


def urls_for_others(place: Place, given: list[str]) -> tuple[list[str], str | None]:
    """URLs under which others reach the broker, the best first, and a warning or None.

    Raises:
        Refused: ``usage``: a URL can't be used, or nothing says where the broker is.
    """
    from rankd.bus.address import user_in, without_secret

    for url in given:
        if without_secret(url) != url or user_in(url) is not None:
            raise Refused("usage", "give the URL without a user and password: they would be in the invitation", "url")
    if given:
        return given, None
    if place.nats is None:
        message = "rankd does not run, so nothing says where its broker is; give --url nats://HOST:PORT"
        raise Refused("usage", message, "url")
    return reachable(without_secret(place.nats), _listening(place), socket.gethostname(), own_address())


def reachable(nats: str, listen: str | None, host: str, address: str | None) -> tuple[list[str], str | None]:
    """The URLs for others, and a warning or None.

    ``nats``: the broker's URL on this machine; those of a cluster, with commas, stay one text. ``listen``: the address
    that it listens on; None if it is not known. ``host`` and ``address`` are this machine's.

    >>> reachable("nats://127.0.0.1:4222", "0.0.0.0", "head", "10.0.0.5")
    (['nats://head:4222', 'nats://10.0.0.5:4222'], None)
    """
    from urllib.parse import urlsplit

    from rankd.services.up.address import is_loopback

    parts = [urlsplit(url) for url in nats.split(",")]
    if listen is not None and _is_any(listen):
        names = [host] if address is None else [host, f"[{address}]" if ":" in address else address]
        return [f"{parts[0].scheme}://{name}:{parts[0].port}" for name in names], None
    if any(one.hostname is not None and is_loopback(one.hostname) for one in parts):
        warning = f"the broker listens at {nats}, which only this machine can reach; others need `rankd up --listen`,"
        return [nats], f"{warning} or --url with the address under which they reach it"
    return [nats], None


def _is_any(listen: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(listen).is_unspecified
    except ValueError:
        return False


def own_address() -> str | None:
    """The address from which this machine reaches others; None without one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(ELSEWHERE)
        return str(probe.getsockname()[0])
    return None


def _listening(place: Place) -> str | None:
    """The address on which the embedded broker of this directory listens; None if that is not known."""
    from rankd.client.up_file import UP_FILE

    if place.by_bus or place.directory is None:
        return None
    import msgspec

    class Listening(msgspec.Struct):
        listen: str | None = None

    try:
        return msgspec.json.decode((place.directory / UP_FILE).read_bytes(), type=Listening).listen
    except (OSError, msgspec.MsgspecError):
        return None
