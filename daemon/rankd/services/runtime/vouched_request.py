"""Passes requests of local users on, on the subjects of a gateway: which gateway asks, and for whom."""

from __future__ import annotations

import nats.errors

from rankd.bus.connection import LOST, MESSAGE_ID, Bus
from rankd.bus.refusal import STATUS_HEADER
from rankd.core.errors import Refused, Unavailable
from rankd.services.runtime.login_socket import Answered
from rankd.wire.login import LoginRequest
from rankd.wire.subject import gateway_request

ANSWER_S = 30.0
"""The longest time that a request takes: changes of 10,000 jobs on a busy machine."""


class VouchedRequests:
    """Asks as the gateway ``gateway``. ``unheard``: what to check when nobody listens."""

    def __init__(self, bus: Bus, gateway: str, unheard: str) -> None:
        self._bus = bus
        self._gateway = gateway
        self._unheard = unheard

    async def ask(self, user: str, asked: LoginRequest, payload: bytes) -> Answered:
        """The answer to a request of this user, as the service gave it.

        Raises:
            Unavailable: ``no_answer``.
            Refused: ``too_large``: the broker takes no request of this size.
        """
        if len(payload) > self._bus.client.max_payload:
            message = f"the request has {len(payload)} bytes, the broker accepts {self._bus.client.max_payload}"
            raise Refused("too_large", message, "size", status=413)
        headers = None if asked.key is None else {MESSAGE_ID: asked.key}
        subject = gateway_request(self._gateway, user, asked.verb)
        try:
            reply = await self._bus.client.request(subject, payload, timeout=ANSWER_S, headers=headers)
        except nats.errors.NoRespondersError:
            raise Unavailable("no_answer", f"nobody answers '{asked.verb}'; {self._unheard}") from None
        except LOST as error:
            message = f"no answer to '{asked.verb}' ({type(error).__name__}); is rankd running?"
            raise Unavailable("no_answer", message) from error
        return Answered(reply.data, (reply.headers or {}).get(STATUS_HEADER))
