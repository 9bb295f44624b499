"""Giving accounts to a running broker, over its system account. Nothing has to be restarted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec

from rankd.bus.connection import LOST, Bus
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Unavailable
from rankd.identity.site import Account, Role, Site

SUBJECT = "$SYS.REQ.CLAIMS.UPDATE"
TIMEOUT_S = 5.0


class _Fault(msgspec.Struct):
    code: int = 0
    description: str = ""


class _Reply(msgspec.Struct):
    error: _Fault | None = None


def system_bus(
    url: str,
    site: Site,
    connect_timeout_s: float | None = TIMEOUT_S,
    tls: TlsFiles = TlsFiles(),  # noqa: B008 - a tuple, which nobody changes
) -> Bus:
    """A connection to the broker's system account; enter it with ``async with``."""
    now = time.time()
    return Bus(
        url,
        "accounts",
        connect_timeout_s=connect_timeout_s,
        credentials=partial(site.credentials, Role.SYSTEM, "", now),
        tls=tls,
    )


async def update_accounts(system: Bus, accounts: Sequence[Account]) -> None:
    """Make accounts known, or replace what the broker knows of them. In force when this returns.

    Raises:
        Unavailable: ``bus_unavailable``: the broker does not answer; ``account_refused``: it does not take one.
    """
    for account in accounts:
        try:
            reply = await system.client.request(SUBJECT, account.token.encode(), timeout=TIMEOUT_S)
        except LOST as error:
            message = f"the broker at {system.url} takes no account: {type(error).__name__} {error}"
            raise Unavailable("bus_unavailable", message) from error
        if (fault := msgspec.json.decode(reply.data, type=_Reply).error) is not None:
            message = f"the broker at {system.url} does not take the account {account.public}: {fault.description}"
            raise Unavailable("account_refused", message)
