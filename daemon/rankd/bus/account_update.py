"""Giving accounts to running brokers, over their system account. Nothing has to be restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec
import nats.errors
from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Unavailable
from rankd.identity.site import Account, Role, Site

SUBJECT = "$SYS.REQ.CLAIMS.UPDATE"
TIMEOUT_S = 5.0
OTHERS_S = 1.0
"""How long the other brokers of a cluster have after the first one has answered."""


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


async def update_accounts(system: Bus, accounts: Sequence[Account]) -> int:
    """Make accounts known, or replace what the brokers know of them. In force when this returns.

    Returns how many brokers have all of them. A broker of a cluster that is away gets them from the others when it is
    back.

    Raises:
        Unavailable: ``bus_unavailable``: no broker answers; ``account_refused``: one does not take an account.
    """
    fewest = len(system.urls)
    for account in accounts:
        try:
            replies = await _asked_all(system, account.token.encode())
        except LOST as error:
            message = f"the broker at {system.url} takes no account: {type(error).__name__} {error}"
            raise Unavailable("bus_unavailable", message) from error
        for reply in replies:
            _check(system, account, reply)
        fewest = min(fewest, len(replies))
    return fewest


async def _asked_all(system: Bus, token: bytes) -> list[Msg]:
    """The replies of all brokers of a cluster, of which one may be away; each of them gets the message."""
    inbox = system.client.new_inbox()
    replies = await system.client.subscribe(inbox)
    try:
        await system.client.publish(SUBJECT, token, reply=inbox)
        found = [await replies.next_msg(timeout=TIMEOUT_S)]
        with suppress(asyncio.TimeoutError, nats.errors.TimeoutError):
            while len(found) < len(system.urls):
                found.append(await replies.next_msg(timeout=OTHERS_S))
        return found
    finally:
        with suppress(*LOST):
            await replies.unsubscribe()


def _check(system: Bus, account: Account, reply: Msg) -> None:
    if (fault := msgspec.json.decode(reply.data, type=_Reply).error) is not None:
        message = f"the broker at {system.url} does not take the account {account.public}: {fault.description}"
        raise Unavailable("account_refused", message)
