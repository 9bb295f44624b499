"""Connections to receivers. The address that is connected to is the one that was checked, so no name can change it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from rankd.core.notification.address import is_public
from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.lane_load import AT_ONCE

LONGEST_LINE = 16 * 2**10
MOST_ADDRESSES = 4
"""Addresses of a name that are tried."""
_LOOKUPS = ThreadPoolExecutor(AT_ONCE, "lookup")


class Stream(NamedTuple):
    """An open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        """Close it at once; what it still had to send is lost."""
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """The system's CAs, and those of the file.

    Raises:
        AttemptFailed: the file can't be used.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise AttemptFailed(f"notifications.ca_file {ca_file} can't be used: {error}") from None
    return context


async def open_checked(host: str, port: int, context: ssl.SSLContext, private_hosts: Collection[str]) -> Stream:
    """Connect with TLS to the first address of the host that answers, and that may be used.

    Raises:
        AttemptFailed: there is none.
    """
    addresses = await _addresses(host, port)
    if host not in private_hosts:
        addresses = [address for address in addresses if is_public(address)]
        if not addresses:
            message = (
                f"{host} has only addresses of this machine or of a private network; an administrator can allow it"
            )
            raise AttemptFailed(f"{message} in notifications.private_hosts")
    problems = []
    for address in addresses[:MOST_ADDRESSES]:
        try:
            opening = asyncio.open_connection(
                address, port, ssl=context, server_hostname=host.strip("[]"), limit=LONGEST_LINE
            )
            return Stream(*await opening)
        except (OSError, ssl.SSLError, ssl.CertificateError) as error:
            problems.append(f"{error}")
    raise AttemptFailed(f"no connection to {host}:{port}: {'; '.join(problems)}")


async def _addresses(host: str, port: int) -> list[str]:
    """The IP addresses of a name. Each is a literal, so connecting to it asks no name server again.

    A lookup can't be ended. If its time is over, this waits for it anyway, and so keeps the user's place: a user whose
    name servers never answer holds some threads, not all.
    """
    look = partial(socket.getaddrinfo, host.strip("[]"), port, type=socket.SOCK_STREAM)
    looking = asyncio.get_running_loop().run_in_executor(_LOOKUPS, look)
    try:
        found = await asyncio.shield(looking)
    except asyncio.CancelledError:
        await asyncio.wait([looking])
        raise
    except (OSError, UnicodeError) as error:
        raise AttemptFailed(f"the name {host} is not known: {error}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
