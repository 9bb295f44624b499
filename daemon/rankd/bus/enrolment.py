"""The client's side of an invitation: exchange it for credentials, and renew credentials."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from rankd.bus.connection import Bus
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import Credentials
from rankd.identity.invitation import InvitationText, digest_of
from rankd.identity.key import Key, KeyKind, new_key
from rankd.identity.pending_key import pending_key
from rankd.wire.encoding import encode
from rankd.wire.enrolment import Granted, Redeem, Renew
from rankd.wire.subject import ENROL, RENEW_VERB, inbox_prefix, node_subject, user_request

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 5.0
PATIENCE_S = 30.0
"""How long a request without an answer is repeated."""
AGAIN_S = 0.5


class Enrolled(NamedTuple):
    """Credentials, whose they are, until when (UTC seconds), and the URL of the broker that answered."""

    nats: str
    role: str
    name: str
    credentials: Credentials
    expires_at: float


async def exchange(invitation: InvitationText, pending: Path) -> Enrolled:
    """Exchange an invitation for credentials. ``pending``: a file for the key until the caller has kept the result.

    Raises:
        Refused: the gateway's reason; ``bad_token``: the broker does not know the invitation, or is not the one of it.
        Unavailable: no broker answers.
        OSError: the key can't be written.
    """
    key = pending_key(pending, digest_of(invitation.secret))
    failed = Unavailable("no_broker", "the invitation names no broker")
    for url in invitation.nats:
        try:
            return await _exchange_at(url, invitation, key)
        except Unavailable as error:
            failed = error
    raise failed


async def _exchange_at(url: str, invitation: InvitationText, key: Key) -> Enrolled:
    credentials = invitation.credentials
    inbox = inbox_prefix(credentials.claims().public)
    bus = Bus(url, "enrolment", connect_timeout_s=CONNECT_TIMEOUT_S, credentials=lambda: credentials, inbox=inbox)
    try:
        async with bus:
            request = encode(Redeem(secret=invitation.secret, key=key.public))
            granted = await _ask(bus, ENROL, request)
    except Refused as error:
        raise _explained(error, url, has_ca=bool(credentials.ca)) from None
    return _enrolled(bus.url, granted, key, credentials.ca)


def _explained(error: Refused, url: str, *, has_ca: bool) -> Refused:
    """A refusal before the gateway has answered: what it means for an invitation."""
    if error.code == "not_authorized":
        why = f"the broker at {url} does not know this invitation: it ended, or it is of another site"
    elif error.code == "not_encrypted" and has_ca:
        why = f"the broker at {url} does not encrypt, and the site of this invitation did. Nothing was sent to it"
    elif error.code == "unknown_ca" and has_ca:
        why = f"the broker at {url} is not that of this invitation: another CA has signed its certificate. Nothing was"
        why += " sent to it"
    elif error.code == "unknown_ca":
        why = f"the broker at {url} encrypts with a certificate that this machine can't check: the invitation was made"
        why += " before the site encrypted"
    else:
        return error
    return Refused("bad_token", f"{why}; ask for a new one", "token", status=403)


async def renew(bus: Bus, role: str, name: str, ca: str) -> Enrolled:
    """Get credentials that last longer, for a new key. ``bus`` is connected with the present ones, which have ``ca``.

    Raises:
        Refused, Unavailable: the gateway's reason, or there is no answer.
    """
    subject = node_subject(name, "renew") if role == "node" else user_request(name, RENEW_VERB)
    key = new_key(KeyKind.USER)
    granted = await bus.request(subject, encode(Renew(key=key.public)), Granted, timeout_s=ANSWER_TIMEOUT_S)
    return _enrolled(bus.url, granted, key, ca)


async def _ask(bus: Bus, subject: str, request: bytes) -> Granted:
    """Ask until there is an answer: asking again with the same key does no harm."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await bus.request(subject, request, Granted, timeout_s=ANSWER_TIMEOUT_S)
        except Unavailable:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(AGAIN_S)


def _enrolled(url: str, granted: Granted, key: Key, ca: str) -> Enrolled:
    credentials = Credentials(granted.token, key.seed, ca)
    return Enrolled(url, granted.role, granted.name, credentials, granted.expires_at)
