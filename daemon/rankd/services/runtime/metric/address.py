"""Where a process serves its metrics, and which names of this machine it answers under. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

import msgspec

LOOPBACK = "127.0.0.1"
LARGEST_PORT = 65_535


class MetricsAddress(msgspec.Struct, frozen=True):
    """Where to listen. ``port`` 0: a free one, which the log names."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    with suppress(ValueError):
        return ip_address(host.strip("[]")).is_loopback
    return host.lower() == "localhost"


def address_of(text: str) -> MetricsAddress:
    """``9102``, ``0.0.0.0:9102`` or ``[::]:9102``.

    Raises:
        ValueError: the text has another form.
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > LARGEST_PORT or (colon and not host):
        raise ValueError(f"'{text}' is not a port or ADDRESS:PORT; write 9102 or 0.0.0.0:9102")
    return MetricsAddress(host.strip("[]") or LOOPBACK, int(port))


def is_own_name(host: str) -> bool:
    """Whether a header ``Host`` has one of this machine's own names; also without one, as old programs ask."""
    name = host.rpartition(":")[0] if re.search(r":\d*\Z", host) else host
    return not name or is_loopback(name)
