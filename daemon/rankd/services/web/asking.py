"""Asks rankd for the visitor: what the broker lets the gateway ``web`` publish, with the visitor's name in it."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
import nats.errors

from rankd.bus.connection import LOST, Bus
from rankd.bus.refusal import raise_if_refused
from rankd.core.errors import Unavailable
from rankd.wire.codec import encode
from rankd.wire.subject import WEB, gateway_request, user_request

T = TypeVar("T")

ANSWER_S = 30.0


class Reader(NamedTuple):
    """A visitor for whom a log is read."""

    user: str
    is_gateway: bool

    def subject(self, verb: str) -> str:
        """The subject of requests for ``verb``."""
        return gateway_request(WEB, self.user, verb) if self.is_gateway else user_request(self.user, verb)


class Asking:
    """``is_gateway``: the broker has accounts, so users are asked for as a gateway; else it believes each subject."""

    def __init__(self, bus: Bus, *, is_gateway: bool) -> None:
        self.bus = bus
        self._is_gateway = is_gateway

    def reader(self, user: str) -> Reader:
        """As whom a log is read for this user."""
        return Reader(user, self._is_gateway)

    async def ask(
        self, user: str, verb: str, message: object, kind: type[T], within_s: float = ANSWER_S, *, is_look: bool = False
    ) -> T:
        """The answer to this user's request. ``is_look``: it changes nothing, so it does no harm to ask again.

        Raises:
            Refused, Unavailable: the service's error, or ``no_answer``.
        """
        try:
            reply = await self.bus.client.request(self.reader(user).subject(verb), encode(message), timeout=within_s)
        except nats.errors.NoRespondersError:
            message = f"the intake does not answer, so nothing can be {'shown' if is_look else 'changed'} now"
            message += "; `rankd health` says what is wrong"
            raise Unavailable("no_answer", message) from None
        except nats.errors.TimeoutError as error:
            message = f"rankd did not answer within {within_s:g} s."
            message += " Load" if is_look else " What you asked for may still be done: load"
            message += " the page again later. `rankd health` says what is wrong"
            raise Unavailable("no_answer", message) from error
        except LOST as error:
            message = f"no answer from rankd ({type(error).__name__}); `rankd health` says what is wrong"
            raise Unavailable("no_answer", message) from error
        raise_if_refused(reply)
        return msgspec.json.decode(reply.data, type=kind)
