"""The address on which the embedded broker listens, and the one at which this machine's processes reach it."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path

from rankd.core.errors import Refused


def free_port(host: str, wanted: int | None, remembered: Path) -> int:
    """The port to listen on: ``wanted`` if given, else the last one if it is free, else any.

    Raises:
        Refused: ``bad_listen``: this machine can't listen there, or the port asked for is in use.
    """
    last = 0
    with suppress(OSError, ValueError):
        last = int(remembered.read_text())
    for candidate in (wanted,) if wanted else (last, 0):
        try:
            port = _bound(host, candidate)
        except (OSError, UnicodeError, OverflowError) as error:  # also an invalid host name or port
            failure = error
            continue
        remembered.write_text(str(port))
        return port
    place = f"{host} port {wanted}" if wanted else host
    reason = getattr(failure, "strerror", None) or failure
    message = f"can't listen on {place}: {reason}; give an address of this machine, and a port that is free"
    raise Refused("bad_listen", message, "listen")


def _bound(host: str, port: int) -> int:
    """Bind a port to check that this machine can listen on it; returns its number."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        return int(probe.getsockname()[1])


def url_of(host: str, port: int, scheme: str = "nats") -> str:
    """The URL at which processes on this machine reach a broker that listens on ``host``.

    >>> url_of("0.0.0.0", 4222), url_of("fd00::1", 4222, "tls")
    ('nats://127.0.0.1:4222', 'tls://[fd00::1]:4222')
    """
    host = reached(host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def reached(host: str) -> str:
    """The address at which processes on this machine reach what listens on ``host``.

    >>> reached("::"), reached("head")
    ('::1', 'head')
    """
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            return "127.0.0.1" if address.version == 4 else "::1"
    return host


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
