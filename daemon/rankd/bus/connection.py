"""A connection that does not give up, and publishing that reports when a message is durable.

By default, nats-py closes for good after 60 failed reconnects, and reports slow consumers and refused publishes only to
``error_cb``. Both are wrong for a daemon.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
import nats.errors

from rankd.bus.address import urls_in, user_in, without_secret
from rankd.bus.client import PatientClient
from rankd.bus.lasting_subscription import LastingSubscription
from rankd.bus.liveness import Failure, Loops, LoopWatch
from rankd.bus.outage import Outage
from rankd.bus.presented import Presented
from rankd.bus.refusal import not_authorized, not_permitted, raise_if_refused
from rankd.bus.refused_credentials import REFUSES, Refusals
from rankd.bus.reply_subject import Replies
from rankd.bus.tls import Encryption
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import Source
from rankd.wire.encoding import UNREADABLE, encode
from rankd.wire.subject import inbox_prefix

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.js import JetStreamContext

T = TypeVar("T")

log = logging.getLogger("rankd.bus")

RECONNECT_WAIT_S = 0.2
PING_INTERVAL_S = 5
LOOK_EVERY_S = 1.0
PUBLISH_TIMEOUT_S = 5.0
STREAM_BYTES = 832 * 2**20
"""The bytes that all streams may use together, if there is room."""
STORES_NOTHING = "stores_nothing"
"""Health's code while the broker answers but acknowledges nothing for its streams."""
MESSAGE_ID = "Nats-Msg-Id"

_FORBIDDEN = re.compile(r'permissions violation for publish to "([^"]+)"')
"""nats-py passes the server's messages on in lower case."""

LOST = (nats.errors.Error, asyncio.TimeoutError, ConnectionError, OSError)
"""The errors that the bus raises while the broker is away, also those of JetStream. All other errors are bugs."""


BROKEN = (nats.errors.UnexpectedEOF, nats.errors.StaleConnectionError, OSError)
"""The errors that nats-py reports just before it notices that a connection has ended."""


def _check_cancelled() -> None:
    """Raise a cancellation that was requested: :func:`asyncio.wait_for` of Python 3.11 can lose one.

    It loses it if the awaited operation fails at the same moment. A timeout around it fires only once, and would be
    lost.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Bus(AbstractAsyncContextManager["Bus"]):
    """``async with Bus(url, name) as bus``. Reconnects without end once it was connected.

    ``url`` may name several brokers, with commas. One of them is used, chosen at random, and another one when that
    fails. Servers that these name are used only if there is one URL: an administrator who lists the brokers knows under
    which addresses clients reach them, and a server may only know inner ones.

    ``connect_timeout_s``: how long to wait for the first connection, per broker; None means without limit.
    ``credentials`` is called at every connection; None without credentials. ``tls``: files for encrypted connections.
    ``inbox``: the prefix of the subjects on which answers come, if the credentials allow no other.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        connect_timeout_s: float | None = 30.0,
        credentials: Source | None = None,
        tls: TlsFiles = TlsFiles(),  # noqa: B008 - a tuple, which nobody changes
        inbox: str | None = None,
    ) -> None:
        self.url = without_secret(url)
        self.name = name
        self._address = url
        self.urls = urls_in(url)
        self._faults = 0
        self._encryption = Encryption(url, tls)
        self._presented = Presented(url, credentials, self._encryption.believe)
        self.has_account = credentials is not None
        """Whether this connection has credentials, so that users and nodes are in other accounts than services."""
        self._refusal: Refused | None = None
        self._inbox = inbox
        self._refused = Refusals()
        self._connecting = asyncio.timeout(None)
        self._forbidden: dict[str, set[asyncio.Timeout]] = {}
        self.client = self._new_client()
        self.after_reconnect: list[Callable[[], Awaitable[None]]] = []
        self.unreadable = Counter[str]()
        """The number of messages that could not be decoded, by stream or kind; ``rankd diag`` shows it."""
        self.replies = Replies(self)
        """Decides which requests on this connection are answered."""
        self.connected_at = 0.0
        self.loops = Loops()
        self.stream_bytes = STREAM_BYTES
        """The bytes that the broker's streams may use together, if this connection makes them."""
        self.stream_replicas = 1
        """On how many brokers each stream is stored, if this connection makes it."""
        self.outage = Outage(self.url)
        self.loops.reasons.append(self.outage.described)
        self.storage = Failure()
        self.loops.reasons.append(self.storage.reason)
        self._lasting: list[LastingSubscription] = []
        self._closing = False
        self._connect_timeout_s = None if connect_timeout_s is None else connect_timeout_s * len(self.urls)

    @property
    def jetstream(self) -> JetStreamContext:
        """JetStream on this connection."""
        return self.client.jetstream(timeout=PUBLISH_TIMEOUT_S)

    async def __aenter__(self) -> Self:
        """Connect, waiting for a broker that is still starting.

        Raises:
            Unavailable: ``no_broker``: no broker answered in time.
            Refused: ``not_authorized``: the broker does not know this user, or the password is wrong;
            ``not_encrypted``, ``unknown_ca``, ``not_trusted``, ``bad_certificate``: see :mod:`rankd.bus.tls`.
        """
        try:
            async with asyncio.timeout(self._connect_timeout_s) as self._connecting:
                await self._connect()
        except TimeoutError:
            await self.client.abandon()
            if self._refusal is not None:
                raise self._refusal from None
            message = f"no NATS server at {self.url}; start one, or give --nats URL"
            raise Unavailable("no_broker", message) from None
        except asyncio.CancelledError:
            await self.client.abandon()  # so that a cancelled connect leaves no socket behind
            raise
        return self

    @property
    def knows_users(self) -> bool:
        """Whether the broker authenticates users. Then the answers to a user go to his own inboxes."""
        return bool(self.client._server_info.get("auth_required"))  # noqa: SLF001 - there is no public way

    @property
    def user(self) -> str | None:
        """Who connects, as far as the connection says so."""
        return self._presented.user

    @property
    def role(self) -> str | None:
        """What the credentials let this connection be; None without credentials."""
        return self._presented.role

    def _new_client(self) -> PatientClient:
        encryption, signs = self._encryption, self.has_account
        return PatientClient(
            signs=signs,
            context=self._context,
            encrypts=lambda: encryption.is_required,
            finds_others=len(self.urls) == 1,
            public_key=self._presented.public_key if signs else None,
        )

    def _context(self) -> ssl.SSLContext:
        """For the next handshake, with the certificates of this moment."""
        self._presented.refresh()
        return self._encryption.context()

    async def _connect(self) -> None:
        user = user_in(self._address)
        signing = self._presented.read()  # what can't be read is an error now, not at some reconnect
        if self._encryption.is_required:
            self._encryption.context()  # as above
            if self._encryption.host is not None:
                signing["tls_hostname"] = self._encryption.host  # also for servers that this one names
        while True:
            try:
                await self.client.connect(
                    self.urls,
                    inbox_prefix=self._inbox or (inbox_prefix(user) if user else "_INBOX"),
                    name=f"rankd {self.name}",
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # seconds, fractions work
                    ping_interval=PING_INTERVAL_S,
                    allow_reconnect=True,
                    error_cb=self._on_error,
                    reconnected_cb=self._on_reconnect,
                    disconnected_cb=self._on_disconnect,
                    pending_size=64 * 2**20,
                    **signing,
                )
            except LOST:
                _check_cancelled()
                with suppress(*LOST):
                    await self.client.close()  # nats-py leaves the socket of a refused connection open
                self.client = self._new_client()
                await asyncio.sleep(RECONNECT_WAIT_S)
            else:
                self.connected_at = time.monotonic()
                self.outage.back()
                return

    async def _on_disconnect(self) -> None:
        if self.connected_at and not self._closing:
            self.outage.lost(None)

    async def until_refused(self) -> None:
        """Wait until the broker goes on refusing the credentials of a connection that was there before.

        Raises:
            Refused: ``not_authorized``: then.
        """
        await self._refused.lasting.wait()
        raise not_authorized(self._address, self._presented.newest)

    def check_accepted(self) -> None:
        """Check that the broker does not go on refusing the credentials.

        Raises:
            Refused: ``not_authorized``.
        """
        if self._refused.lasting.is_set():
            raise not_authorized(self._address, self._presented.newest)

    async def _on_reconnect(self) -> None:
        self._refused.over()
        self.connected_at = time.monotonic()
        self.outage.back()
        for action in self.after_reconnect:
            await action()

    def connected_for_s(self) -> float:
        """For how many seconds the present connection has existed; 0 while there is none."""
        return time.monotonic() - self.connected_at if self.client.is_connected else 0.0

    async def _on_error(self, error: Exception) -> None:
        text = str(error).lower()
        fault = self._encryption.fault(error, self.client.host)
        if "authorization violation" in text:
            fault = not_authorized(self._address, self._presented.newest)
        if fault is not None and not self.connected_at:
            await self._refuse(fault)
        elif self.client.is_connected and not isinstance(error, BROKEN):
            log.warning("bus: %s: %s", type(error).__name__, error)
        elif not self._closing:
            self.outage.lost(fault or error)
        if self.connected_at and any(reason in text for reason in REFUSES):
            self._refused.note(time.monotonic())
        if found := _FORBIDDEN.search(text):
            for scope in self._forbidden.get(found[1], ()):
                scope.reschedule(asyncio.get_running_loop().time())

    async def _refuse(self, fault: Refused) -> None:
        """Give the first connection up once each broker has had its turn: further attempts would fail the same way."""
        self._refusal, self._faults = fault, self._faults + 1
        if self._faults >= len(self.urls) and not self._connecting.expired():
            self._connecting.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(LOOK_EVERY_S)  # it ends here, before nats-py begins another attempt

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is buffered, then close. A broker that is away does not delay this."""
        self._closing = True
        close = self.client.close if self.client.is_connected else self.client.abandon
        for leaving in (self._flush, close):
            try:
                await leaving()
            except LOST as lost:  # close() writes, too, and raises if the broker has just gone
                log.info("bus: closing without the broker: %s", lost)

    async def _flush(self) -> None:
        async with asyncio.timeout(2):
            if self.client.is_connected:
                await self.client.flush()

    @property
    def wait_level(self) -> int:
        """The log level for "this waits for the broker": an outage has its own log lines."""
        return logging.INFO if self.outage.since is None else logging.DEBUG

    async def listen(self, subject: str, on_message: Callable[[Msg], Awaitable[None]]) -> None:
        """Call ``on_message`` with every message on ``subject`` from now on. Health reports it if that ends."""
        self.watch(await self.client.subscribe(subject, cb=on_message))

    def watch(self, subscription: Subscription) -> None:
        """Let health report if this subscription ends or its handler hangs."""
        self._lasting.append(LastingSubscription(subscription, self.loops))

    def stop_watching(self, subscriptions: Sequence[Subscription]) -> None:
        """Stop watching subscriptions that end on purpose."""
        for lasting in [one for one in self._lasting if one.subscription in subscriptions]:
            self._lasting.remove(lasting)
            lasting.drop()

    async def supervise(self) -> None:
        """Watch the connection and all loops of the service until cancelled; see :mod:`rankd.bus.liveness`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(LoopWatch(self.loops).run())
            group.create_task(self._check_for_ever())

    async def _check_for_ever(self) -> None:
        """Send a message to the broker and back repeatedly, which shows that the socket is still read."""
        connection = self.loops.add("connection")
        while True:
            with suppress(*LOST):
                if self.client.is_connected:
                    await self.client.flush(PING_INTERVAL_S)
                    connection.beat()
            for lasting in self._lasting:
                lasting.look(self.client)
            await asyncio.sleep(LOOK_EVERY_S)

    async def publish(self, subject: str, message: msgspec.Struct) -> None:
        """Publish at most once: for hints, and for messages that are repeated anyway."""
        await self.client.publish(subject, encode(message))

    async def publish_durably(self, subject: str, message: msgspec.Struct | msgspec.Raw, message_id: str) -> None:
        """Publish into a stream; returns once it is on the broker's disk. A repeated id is stored once.

        Raises:
            Unavailable: ``bus_unavailable``: not acknowledged; publish again with the same id.
        """
        try:
            await self.jetstream.publish(
                subject, encode(message), timeout=PUBLISH_TIMEOUT_S, headers={MESSAGE_ID: message_id}
            )
        except LOST as error:
            message_text = f"{subject} was not acknowledged: {type(error).__name__} {error}"
            if self.client.is_connected:
                self.storage.note(f"the broker at {self.url} stores nothing: {message_text}")
            raise Unavailable("bus_unavailable", message_text) from error
        self.storage.over()

    async def request(self, subject: str, payload: bytes, kind: type[T], *, timeout_s: float = 10.0) -> T:
        """Send a request and decode the answer.

        Raises:
            Refused, Unavailable: the error that the other side answered; ``no_answer`` without an answer;
            ``unreadable_answer`` if the answer can't be decoded; ``not_permitted`` if the broker does not let this
            connection publish there.
        """
        asking = self.client.request(subject, payload, timeout=timeout_s)
        try:
            reply = await (self._unless_forbidden(subject, asking) if self.knows_users else asking)
        except LOST as error:
            message = f"no answer on {subject} ({type(error).__name__}); is rankd running on {self.url}?"
            raise Unavailable("no_answer", message) from error
        try:
            raise_if_refused(reply)
            return msgspec.json.decode(reply.data, type=kind)
        except UNREADABLE as error:
            self.unreadable["answer"] += 1
            message = f"the answer on {subject} can't be read: {error}"
            raise Unavailable("unreadable_answer", message) from error

    async def _unless_forbidden(self, subject: str, asking: Coroutine[Any, Any, Msg]) -> Msg:
        """Await a request, but raise if it is forbidden: the broker reports that to the connection only."""
        scopes = self._forbidden.setdefault(subject.lower(), set())
        scope = asyncio.timeout(None)
        scopes.add(scope)
        try:
            async with scope:
                return await asking
        except TimeoutError:
            if not scope.expired():
                raise
            raise not_permitted(self.user or "you", subject) from None
        finally:
            scopes.discard(scope)
