"""The agent's sessions: opens what the intake grants, on a connection of their own, and nothing else.

Clients send as much as they like. Their messages come on this connection, so they never delay the agent's heartbeats
and reports. The agent hears a client's subject only while it has a session of that client.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.services.agent.log_file import LogFiles
from rankd.services.agent.runner import Around
from rankd.services.agent.session import LogSession, Send, Session
from rankd.services.agent.user_reader import UserReaders
from rankd.wire.answer import ErrorBody
from rankd.wire.codec import UNREADABLE, encode
from rankd.wire.delivery import ReportsTaken
from rankd.wire.session import Grant, LogWish, Opened
from rankd.wire.subject import OPENED, node_subject, session_grant, session_in, session_out

log = logging.getLogger("rankd.agent")

MOST_SESSIONS, MOST_PER_USER = 1_024, 256
MOST_WAITING, MOST_WAITING_BYTES = 64, 512 * 2**10
"""Messages of one client that wait. Further ones are dropped; it sends them again."""
MOST_GRANTS = 2_048
UNCONFIRMED_BYTES = 4 * 2**20
"""What is given to the broker before it has confirmed anything: more would only wait in this process."""
CONFIRM_S = 5.0
NOT_CONNECTED_S = 0.2
ACCOUNT_REPLY = "_R_."

Key = tuple[str, str, str]
Accepts = Callable[[str], bool]
"""Whether a client may have this subject for replies."""
Factory = Callable[[Grant, Send, Accepts], Session]
"""Makes a session of a kind of wish; it is opened by :class:`Sessions`."""


class _Open(NamedTuple):
    session: Session
    subscription: Subscription
    task: asyncio.Task[None]
    of: tuple[int, type]
    """The job, and the kind of the wish. A grant for another job must not renew it."""


class Sessions:
    """All sessions of one agent. ``factories``: further kinds of sessions, by the kind of the grant's wish."""

    def __init__(self, bus: Bus, nodes: Sequence[str], around: Around) -> None:
        self.factories: dict[type, Factory] = {}
        self.ready = asyncio.Event()
        """Set once grants are heard."""
        self._bus = bus
        self._nodes = frozenset(nodes)
        self._readers = UserReaders(around.identity)
        self._files = LogFiles(self._readers, around.is_running)
        self.factories[LogWish] = self._log_session
        self._open: dict[Key, _Open] = {}
        self._opening = set[Key]()
        self._unconfirmed = 0
        self._confirming: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Serve until cancelled."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._bus)
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._readers.tidy())
                for node in self._nodes:
                    await self._bus.client.subscribe(
                        session_grant(node), cb=self._on_grant, pending_msgs_limit=MOST_GRANTS
                    )
                with suppress(*LOST):  # the broker is away: it hears of the subscriptions when it is back
                    await self._bus.client.flush()
                self.ready.set()
                await asyncio.Event().wait()

    async def _on_grant(self, message: Msg) -> None:
        """Open or renew a session, beside others."""
        try:
            grant = msgspec.json.decode(message.data, type=Grant)
        except UNREADABLE as error:
            self._bus.unreadable["grant"] += 1
            log.warning("a grant of a session can't be read: %s", error)
            return
        if grant.node in self._nodes and self._group is not None and len(self._opening) < MOST_GRANTS:
            self._group.create_task(self._carry_out(grant))

    async def _carry_out(self, grant: Grant) -> None:
        error: RankdError | None = None
        key = _key(grant)
        if found := self._open.get(key):
            if found.of == (grant.job, type(grant.wish)):
                found.session.renew(grant)
            else:
                error = Refused("session_taken", "this session is with another job; choose another id", status=409)
        elif key in self._opening:
            return  # it is answered once it is open
        else:
            self._opening.add(key)
            try:
                await self._begin(key, grant)
            except RankdError as refusal:
                error = refusal
            except LOST as lost:
                log.info("a session could not be opened: %s", lost)
                return
            except Exception:  # a bug in one session must not end the agent
                log.exception("a session of %s can't be opened", grant.user)
                error = Refused("session_failed", "the agent failed here; its log says how", status=500)
            finally:
                self._opening.discard(key)
        await self._confirm(grant, error)

    async def _begin(self, key: Key, grant: Grant) -> None:
        """Open a session, and listen to its client.

        Raises:
            RankdError: the reason why not.
        """
        self._check_room(grant.user)
        make = self.factories.get(type(grant.wish))
        if make is None or self._group is None:
            raise Refused("unknown_session", "the agent of this node is of another version; ask its administrator")
        plain = session_out(grant.user, grant.node, grant.session)
        session = make(grant, self._send, lambda reply: self._accepts(reply, plain))
        try:
            if isinstance(session, LogSession):
                await session.open()
            subscription = await self._bus.client.subscribe(
                session_in(grant.user, grant.node, grant.session),
                cb=session.on_message,
                pending_msgs_limit=MOST_WAITING,
                pending_bytes_limit=MOST_WAITING_BYTES,
            )
            await self._bus.client.flush()
        except BaseException:
            await session.close()
            raise
        task = self._group.create_task(self._serve(key, session))
        self._open[key] = _Open(session, subscription, task, (grant.job, type(grant.wish)))

    def _check_room(self, user: str) -> None:
        by_user = Counter(owner for _, owner, _ in (*self._open, *self._opening))
        if len(self._open) >= MOST_SESSIONS or by_user[user] > MOST_PER_USER:
            message = f"{MOST_SESSIONS} sessions may be open on a node, {MOST_PER_USER} of a user; end some, try again"
            raise Unavailable("too_many_sessions", message, status=429)

    def _accepts(self, reply: str, plain: str) -> bool:
        """Where each user has an account, the broker has replaced the client's subject; else it is the session's."""
        return reply.startswith(ACCOUNT_REPLY) if self._bus.has_account and reply != plain else reply == plain

    async def _serve(self, key: Key, session: Session) -> None:
        try:
            await session.run()
        except LOST as lost:
            log.info("a session of %s has ended: %s", key[1], lost)
        except Exception:  # a bug in one session must not end the agent
            log.exception("a session of %s fails", key[1])
        finally:
            found = self._open.pop(key, None)
            with suppress(*LOST):
                if found is not None:
                    await found.subscription.unsubscribe()
            await session.close()

    async def _confirm(self, grant: Grant, error: RankdError | None) -> None:
        body = None if error is None else ErrorBody(code=error.code, message=error.message[:4_096], field=error.field)
        opened = Opened(
            user=grant.user, session=grant.session, error=body, status=200 if error is None else error.status
        )
        try:
            await self._bus.request(node_subject(grant.node, OPENED), encode(opened), ReportsTaken, timeout_s=CONFIRM_S)
        except RankdError as unheard:  # the client asks again
            log.debug("the intake has not heard of a session: %s", unheard.message)

    async def _send(self, subject: str, data: bytes, headers: Mapping[str, str]) -> bool:
        """See :data:`.session.Send`."""
        if self._unconfirmed > UNCONFIRMED_BYTES:
            await self._confirmed()
        if not self._bus.client.is_connected:
            await asyncio.sleep(NOT_CONNECTED_S)
            return False
        self._unconfirmed += len(data)
        try:
            await self._bus.client.publish(subject, data, headers=dict(headers))
        except LOST:
            await asyncio.sleep(NOT_CONNECTED_S)
            return False
        return True

    async def _confirmed(self) -> None:
        """Wait until the broker has received what was sent before."""
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.get_running_loop().create_task(self._flush())
        await asyncio.shield(self._confirming)

    async def _flush(self) -> None:
        with suppress(*LOST):
            await self._bus.client.flush()
        self._unconfirmed = 0

    def _log_session(self, grant: Grant, send: Send, accepts: Accepts) -> Session:
        assert isinstance(grant.wish, LogWish)  # noqa: S101 - the table of factories says so
        return LogSession(grant, grant.wish, self._files, send, accepts)


def _key(grant: Grant) -> Key:
    return grant.node, grant.user, grant.session
