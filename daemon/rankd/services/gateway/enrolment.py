"""Exchanges invitations for credentials and renews credentials, over the bus.

An invitation is recorded as used before it is answered. If this process ends in between, or the answer is lost, the
same public key may ask again. Requests come one after the other. Of each invitation, and of all guesses together, only
some in a second are answered, so a flood costs the other work of the gateway little.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.bus.refusal import respond_error
from rankd.bus.token_bucket import TokenBuckets
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.identity.invitation import digest_of
from rankd.identity.register import Register, find_invitation, given, is_public_key, redeemed, role_now
from rankd.identity.site import Role
from rankd.services.gateway.issuer import Issuer
from rankd.services.runtime.clock import Clock
from rankd.wire.codec import UNREADABLE, decode_strict, encode
from rankd.wire.enrolment import MOST_BYTES, Granted, Redeem, Renew
from rankd.wire.subject import ENROL, RENEW_VERB, asker_of, node_of, node_pattern, request_patterns

log = logging.getLogger("rankd.gateway")

DAY_S = 86_400.0
LASTS_S = {Role.USER: 90 * DAY_S, Role.ADMIN: 90 * DAY_S, Role.NODE: 30 * DAY_S}
"""How long credentials last. An agent renews its own; a user logs in again, or asks with `rankd login --renew`."""
MOST_WAITING = 1_024
"""Requests that wait on one subject. Further ones are dropped: their senders ask again."""
ENROL_PER_S, ENROL_BURST_S = 5.0, 10.0
"""Exchanges of one invitation, and all guesses together. After a pause, those of this many seconds come at once."""
RENEW_PER_S, RENEW_BURST_S = 0.1, 50.0
"""Renewals of one user or node."""
GUESS = "a guess"

T = TypeVar("T", Redeem, Renew)

Handler = Callable[[Msg], Awaitable[Granted]]


class Enrolment:
    """Answers on the subjects of invitations and renewals."""

    def __init__(self, bus: Bus, issuer: Issuer, clock: Clock) -> None:
        self._bus = bus
        self._issuer = issuer
        self._clock = clock
        self._enrolments = TokenBuckets(ENROL_BURST_S)
        self._renewals = TokenBuckets(RENEW_BURST_S)

    async def serve(self) -> None:
        """Answer for as long as the connection lives."""
        of_user = request_patterns(RENEW_VERB)[0]
        handlers: dict[str, Handler] = {
            ENROL: self._redeem,
            of_user: self._renew_user,
            node_pattern("renew"): self._renew_node,
        }
        for subject, handler in handlers.items():
            answering = partial(self._answer, handler)
            self._bus.watch(await self._bus.client.subscribe(subject, cb=answering, pending_msgs_limit=MOST_WAITING))

    async def _answer(self, handler: Handler, message: Msg) -> None:
        """One request. Errors that its content causes do not leave this function."""
        if not self._bus.replies.may_answer(message.subject, message.reply):
            return
        try:
            try:
                await message.respond(encode(await handler(message)))
            except RankdError as error:
                await respond_error(message, error)
            except UNREADABLE as error:
                await respond_error(message, Refused("bad_request", f"the request can't be read: {error}"))
            except LOST:
                raise
            except Exception:  # one client's request must not end the service for the others
                log.exception("a request on %s failed", message.subject)
                refusal = RankdError("internal_error", "rankd failed on this request; the gateway's log says how")
                await respond_error(message, refusal)
        except LOST as lost:  # the asker asks again
            log.info("could not answer on %s: %s", message.subject, lost)

    async def _redeem(self, message: Msg) -> Granted:
        request = _read(message, Redeem)
        now, digest, site = self._clock(), digest_of(request.secret), self._issuer.site
        asker = digest if digest in self._issuer.register.invitations else GUESS
        _check_rate(self._enrolments, asker, ENROL_PER_S)

        def spend(register: Register) -> Register:
            found = find_invitation(register, digest, request.key, now, site.revoked_at)
            return redeemed(register, digest, request.key, now, now + LASTS_S[found.role])

        find_invitation(self._issuer.register, digest, request.key, now, site.revoked_at)  # without the lock
        register = await self._issuer.change(spend)
        found = register.invitations[digest]
        granted = await self._grant(role_now(register, found), found.name, request.key, now)
        log.info("an invitation was used: credentials for %s '%s'", granted.role, granted.name)
        return granted

    async def _renew_user(self, message: Msg) -> Granted:
        name = asker_of(message.subject).user
        return await self._renew(message, Role.USER, name)

    async def _renew_node(self, message: Msg) -> Granted:
        return await self._renew(message, Role.NODE, node_of(message.subject))

    async def _renew(self, message: Msg, role: Role, name: str) -> Granted:
        _check_rate(self._renewals, f"{role} {name}", RENEW_PER_S)
        request, now = _read(message, Renew), self._clock()
        if not is_public_key(request.key):
            raise Refused("bad_key", "the key is not the public key of a user", "key")
        member = self._issuer.register.member(role, name)
        if member is None or member.given_at is None or not member.renews:
            why = f"'{name}' has not exchanged an invitation, so these credentials end when they say; ask for new ones"
            raise Refused("not_enrolled", why, status=403)
        granted = await self._grant(member.role, name, request.key, now)
        await self._issuer.change(lambda register: given(register, member.role, name, now, granted.expires_at))
        log.info("renewed the credentials of %s '%s'", granted.role, name)
        return granted

    async def _grant(self, role: Role, name: str, key: str, now: float) -> Granted:
        lasts_s = LASTS_S[role]
        site = await self._issuer.admit(role, name, now)
        token = site.sign(role, name, key, now, lasts_s)
        return Granted(role=role, name=name, token=token, expires_at=now + lasts_s)


def _check_rate(buckets: TokenBuckets, asker: str, per_s: float) -> None:
    if buckets.spend(asker, 1, per_s, time.monotonic()):
        raise Unavailable("busy", "too many ask for credentials at this moment; try again in a second")


def _read(message: Msg, kind: type[T]) -> T:
    """The request.

    Raises:
        ValueError: it is too long.
        Refused: it is not a request of this kind.
    """
    if len(message.data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return decode_strict(message.data, kind)
