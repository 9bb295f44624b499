"""Requests by users: endpoints of a NATS micro service, answered in turns.

nats-py's endpoint handles one request at a time, and sends the repr of an uncaught exception to the client. Here a
handler only lets the request wait for its turn (:mod:`rankd.bus.request_turns`) and returns. Each request is answered
in a task of its own, and every error becomes a stable code. Several instances share the load by queue group.
``nats micro info rankd`` describes the endpoints. ``schema`` in their metadata is the digest of the JSON Schemas that
``schema.show`` answers: all schemas with all endpoints would fill half of the broker's usual largest message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.micro.request import Request
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from rankd.bus.connection import LOST, MESSAGE_ID, Bus
from rankd.bus.request_turns import RequestTurns, Turn
from rankd.core.admission.permission import check
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.answer import ErrorBody
from rankd.wire.encoding import encode
from rankd.wire.schema import digest
from rankd.wire.subject import gateway_pattern, is_user_request, node_of, request_patterns, sender_in

log = logging.getLogger("rankd.bus")

STARTS_AT_ONCE = 32
"""Requests that begin in one round of the event loop. What arrives meanwhile gets its turn after them."""
REFUSAL_AFTER_S = 1.0
"""A refusal for too many requests is sent after this time, so that asking again at once does not make more of them."""
MOST_REFUSALS = 2_000
"""Refusals of one asker that wait to be sent. Further requests of it are dropped without an answer."""

_UNKNOWN_OUTCOME = (
    "the service stopped before it knew whether this took place; ask again, a submission with the same Nats-Msg-Id"
)

RETRY_AFTER = {"Retry-After": "1"}
DRAIN_S = 2.0
"""The longest time for which a broker that is away delays a stop."""

Reply = msgspec.Struct | Mapping[str, object]
UserHandler = Callable[[Submitter, bytes], Awaitable[Reply]]
IdempotentHandler = Callable[[Submitter, bytes, str | None], Awaitable[Reply]]
"""Also gets the request's ``Nats-Msg-Id``: a repeated id has the same outcome."""
NodeHandler = Callable[[str, bytes], Awaitable[Reply]]
Rate = Callable[[], float | None]
"""Returns the requests per second of a user at present; None without a limit."""
Answered = Counter[tuple[str, str]]
"""The number of answers by verb and by code, which is ``ok`` or an error's."""
Enter = Callable[[str, str], Awaitable[Submitter]]
"""The asker of a request on this subject for this verb, with the present rights.

Raises:
    Refused: the asker claims rights that nobody gave, or the gateway may not ask for this user.
    Unavailable: whether the asker has these rights can't be known now.
"""


class Verb(NamedTuple):
    """A verb of users and administrators. Who may ask it: :data:`rankd.core.admission.permission.RULES`."""

    name: str
    handler: UserHandler


class IdempotentVerb(NamedTuple):
    """A verb that uses the request's message id."""

    name: str
    handler: IdempotentHandler


class _Asked(NamedTuple):
    """A request for ``verb``, and how it is answered."""

    verb: str
    request: Request
    answer: Callable[[], Awaitable[Reply]]


class _Refusal(NamedTuple):
    """A refusal that is sent later, at ``at`` of the event loop's time."""

    at: float
    asker: str
    request: Request
    error: Unavailable


class _MicroService(Service):
    """Describes itself only where requests are answered; nats-py's own publishes on any reply subject."""

    def __init__(self, bus: Bus, version: str) -> None:
        super().__init__(bus.client, ServiceConfig(name="rankd", version=version, queue_group="rankd"))
        self._replies = bus.replies

    async def _handle_ping_request(self, msg: Msg) -> None:
        if self._replies.may_answer(msg.subject, msg.reply):
            await super()._handle_ping_request(msg)

    async def _handle_info_request(self, msg: Msg) -> None:
        if self._replies.may_answer(msg.subject, msg.reply):
            await super()._handle_info_request(msg)

    async def _handle_stats_request(self, msg: Msg) -> None:
        if self._replies.may_answer(msg.subject, msg.reply):
            await super()._handle_stats_request(msg)


class Endpoints:
    """The micro service ``rankd``. Call ``await serve()`` in a task group that outlives the requests.

    ``rate``: of each user, over a longer time. Administrators and nodes have no limit.
    """

    def __init__(
        self,
        bus: Bus,
        group: asyncio.TaskGroup,
        version: str,
        rate: Rate,
        enter: Enter,
        answered: Answered | None = None,
    ) -> None:
        self._bus = bus
        self._enter = enter
        self._group = group
        self._version = version
        self._service: Service | None = None
        self._loop = asyncio.get_running_loop()
        self._turns: RequestTurns[_Asked] = RequestTurns(lambda asker: rate() if is_user_request(asker) else None)
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._refusals = deque[_Refusal]()
        self._n_refusals = Counter[str]()
        self._idle = asyncio.Event()
        self._unanswered = set[Request]()
        self._answered = Counter[tuple[str, str]]() if answered is None else answered

    async def serve(
        self, verbs: Sequence[Verb | IdempotentVerb], node_verbs: Mapping[str, tuple[str, NodeHandler]]
    ) -> None:
        """Register these endpoints, beside earlier ones; ``node_verbs`` maps a name to its pattern and handler."""
        if self._service is None:
            self._service = _MicroService(self._bus, self._version)
            await self._service.start()
        service, before = self._service, self._subscriptions(self._service)
        for verb in verbs:
            ways = list(zip(("user", "admin", "as_admin"), request_patterns(verb.name), strict=True))
            if self._bus.has_account:  # else anybody could ask as a gateway
                ways.append(("gateway", gateway_pattern(verb.name)))
            for role, subject in ways:
                await service.add_endpoint(
                    EndpointConfig(
                        name=f"{role}_{verb.name.replace('.', '_')}",
                        subject=subject,
                        handler=self._of_verb(verb),
                        metadata={"verb": verb.name, "schema": digest(verb.name)},
                    )
                )
        for name, (subject, handler) in node_verbs.items():
            config = EndpointConfig(name=name, subject=subject, handler=self._of_node(name, handler))
            await service.add_endpoint(config)
        for subscription in self._subscriptions(service):
            if subscription not in before:
                self._bus.watch(subscription)

    @staticmethod
    def _subscriptions(service: Service) -> list[Subscription]:
        found = (endpoint._subscription for endpoint in service._endpoints)  # noqa: SLF001 - there is no public way
        return [subscription for subscription in found if subscription is not None]

    async def drain(self) -> None:
        """Accept no more requests and answer the present ones. The broker tells later askers that nobody listens."""
        await self._stop_listening()
        self._turns.lift_rates()
        self._wake()
        while self._turns.load.requests:
            self._idle.clear()
            await self._idle.wait()

    async def leave(self) -> None:
        """Accept no more requests until :meth:`serve` is called again. Other instances answer meanwhile."""
        await self._stop_listening()

    async def turn_away(self) -> None:
        """Answer the requests that were cut off when the task group failed: their outcome is unknown."""
        await self._stop_listening()
        for request in list(self._unanswered):
            await _respond(request, Unavailable("stopping", _UNKNOWN_OUTCOME))

    async def _stop_listening(self) -> None:
        if self._service is None:
            return
        subscriptions = self._subscriptions(self._service)  # ended here: the service's own stop() drops what waits
        self._bus.stop_watching(subscriptions)
        self._service = None
        if not self._bus.client.is_connected:
            return
        try:
            async with asyncio.timeout(DRAIN_S):
                await _drain(subscriptions)
        except LOST as lost:
            log.info("stopping without having heard from the broker: %s", lost)

    def _of_verb(self, verb: Verb | IdempotentVerb) -> Callable[[Request], Awaitable[None]]:
        async def answer(request: Request) -> Reply:
            asker = await self._enter(request.subject, verb.name)
            check(asker, verb.name)
            if isinstance(verb, Verb):
                return await verb.handler(asker, request.data)
            return await verb.handler(asker, request.data, (request.headers or {}).get(MESSAGE_ID))

        async def handle(request: Request) -> None:
            await self._dispatch(verb.name, request, lambda: answer(request))

        return handle

    def _of_node(self, name: str, handler: NodeHandler) -> Callable[[Request], Awaitable[None]]:
        async def handle(request: Request) -> None:
            await self._dispatch(name, request, lambda: handler(node_of(request.subject), request.data))

        return handle

    async def _dispatch(self, verb: str, request: Request, answer: Callable[[], Awaitable[Reply]]) -> None:
        """Answer in a separate task, in turn. Drops a request whose reply subject is not an inbox of the asker.

        Otherwise an asker could make this service publish on a subject that is forbidden to the asker.
        """
        reply = request._msg.reply  # noqa: SLF001 - nats-py has no public way to the reply subject
        if not self._bus.replies.may_answer(request.subject, reply):
            return
        asker = sender_in(request.subject)
        refusal = self._turns.add(asker, _Asked(verb, request, answer), len(request.data))
        if refusal is not None:
            self._answered[verb, refusal.code] += 1
            await self._refuse_later(_Refusal(self._loop.time() + REFUSAL_AFTER_S, asker, request, refusal))
            return
        self._unanswered.add(request)
        self._wake()

    def _wake(self) -> None:
        """Start requests in the next round of the event loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._start_some)

    def _start_some(self) -> None:
        """Start some requests whose turn it is. If there are more, others of the event loop run before these."""
        self._is_due = False
        now = self._loop.time()
        for _ in range(STARTS_AT_ONCE):
            turn = self._turns.take(now)
            if turn is None:
                self._wake_at(self._turns.next_at)
                return
            self._start(turn)
        self._wake()

    def _wake_at(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when is None else self._loop.call_at(when, self._wake)

    def _start(self, turn: Turn[_Asked]) -> None:
        answering = self._answer(turn.request)
        try:
            task = self._group.create_task(answering)
        except RuntimeError:  # the service ends without waiting for tasks; turn_away() answers
            answering.close()
            self._finish(turn)
            return
        task.add_done_callback(lambda _task: self._finish(turn))

    async def _refuse_later(self, refusal: _Refusal) -> None:
        if self._n_refusals[refusal.asker] >= MOST_REFUSALS:
            return
        self._n_refusals[refusal.asker] += 1
        self._refusals.append(refusal)
        if len(self._refusals) > 1:
            return
        sending = self._send_refusals()
        try:
            self._group.create_task(sending)
        except RuntimeError:  # as in _start
            sending.close()
            self._refusals.clear()
            await _respond(refusal.request, refusal.error)

    async def _send_refusals(self) -> None:
        """Send the refusals, each at its time, until none is left."""
        while self._refusals:
            await asyncio.sleep(max(0.0, self._refusals[0].at - self._loop.time()))
            refusal = self._refusals[0]
            await _respond(refusal.request, refusal.error)
            self._refusals.popleft()
            self._n_refusals[refusal.asker] -= 1
            if not self._n_refusals[refusal.asker]:
                del self._n_refusals[refusal.asker]

    async def _answer(self, asked: _Asked) -> None:
        request = asked.request
        try:
            code = await _respond(request, await asked.answer())
        except RankdError as error:
            code = await _respond(request, error)
        except (ValueError, RecursionError) as error:
            code = await _respond(request, Refused("bad_request", f"the request can't be read: {error}"))
        except Exception:  # a request that shows a bug must not end the service for all other users
            log.exception("a request on %s failed", request.subject)
            failure = RankdError("internal_error", "rankd failed on this request; its log says how")
            code = await _respond(request, failure)
        self._answered[asked.verb, code] += 1
        self._unanswered.discard(request)

    def _finish(self, turn: Turn[_Asked]) -> None:
        self._turns.finish(turn.asker, turn.n_bytes)
        self._idle.set()
        if self._turns.has_ready:
            self._wake()


async def _drain(subscriptions: Sequence[Subscription]) -> None:
    """End all subscriptions and handle what has arrived. The round trip of each follows its UNSUB."""
    await asyncio.gather(*(subscription.drain() for subscription in subscriptions))  # type: ignore[no-untyped-call]


async def _respond(request: Request, reply: Reply | RankdError) -> str:
    """Answer; returns ``ok``, or the code of the error that was sent."""
    try:
        if isinstance(reply, RankdError):
            body = ErrorBody(code=reply.code, message=reply.message, field=reply.field)
            headers = RETRY_AFTER if reply.retryable else None
            await request.respond_error(str(reply.status), _one_line(reply.message), encode(body), headers)
        else:
            return await _send(request, encode(reply))
    except LOST as lost:  # the asker will ask again; the decision is in the database
        log.info("could not answer on %s: %s", request.subject, lost)
    return reply.code if isinstance(reply, RankdError) else "ok"


async def _send(request: Request, payload: bytes) -> str:
    limit = request._msg._client.max_payload  # noqa: SLF001 - the connection's limit; nats-py only logs what is over it
    if len(payload) <= limit:
        await request.respond(payload)
        return "ok"
    message = f"the answer has {len(payload)} bytes, the broker accepts {limit}; ask for fewer with a filter or limit"
    return await _respond(request, Refused("too_large", message, "limit", status=413))


def _one_line(text: str) -> str:
    """A text for a header, which ends at a line break."""
    return " ".join(text.split())[:500]
