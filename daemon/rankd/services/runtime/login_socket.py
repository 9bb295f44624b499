"""A login socket: one request per connection, from processes of this machine, for the users who they are.

The kernel says who is at the other end. What is answered, a :class:`Door` decides: that of the head's gateway, or that
of an agent whose node may vouch for its users. Clients may be hostile: everything has a bound and a time limit, and
no client can end the service.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from rankd.bus.login import short_path
from rankd.core.errors import RankdError, Refused
from rankd.services.runtime.peer import Peer, peer_of
from rankd.services.runtime.socket_room import AT_ONCE, SocketRoom
from rankd.wire.codec import decode_strict, encode
from rankd.wire.login import (
    MOST_LINE_BYTES,
    AnswerLine,
    Login,
    LoginName,
    LoginRefused,
    LoginRequest,
    check_asked,
)
from rankd.wire.login_size import MOST_REQUEST_BYTES

PATIENCE_S = 5.0
"""A client that does not ask, or does not read its answer, within this time is cut off."""
DRAIN_S = 1.0
PART_BYTES = 64 * 2**10
COMPLAIN_EVERY_S = 60.0
OWNER_ONLY, EVERYBODY = 0o600, 0o666


class Answered(NamedTuple):
    """The answer to a request, as it came; ``status`` of an error."""

    payload: bytes
    status: str | None = None


class Door(Protocol):
    """Who may ask, and what they are answered."""

    def user(self, peer: Peer) -> str:
        """The name under which this process asks.

        Raises:
            Refused: its user may not ask.
        """

    def name(self, user: str) -> LoginName:
        """What a client hears about itself."""

    async def login(self, peer: Peer, user: str) -> Login:
        """Credentials.

        Raises:
            Refused: this user gets none here.
        """

    async def ask(self, user: str, asked: LoginRequest, payload: bytes) -> Answered:
        """The answer to a user's request.

        Raises:
            Unavailable: no service answers.
        """


class LoginSocket:
    """Answers on the socket at ``path``."""

    def __init__(self, path: Path, door: Door, log: logging.Logger, *, is_shared: bool) -> None:
        self.room = SocketRoom()
        self._path = path
        self._door = door
        self._log = log
        self._is_shared = is_shared
        self._complain_at: dict[int, float] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer while the block runs; the socket is gone afterwards.

        Raises:
            Refused: ``bad_path``: the socket can't be made.
        """
        listening = _listening(self._path, is_shared=self._is_shared)
        server = await asyncio.start_unix_server(self._on_connection, sock=listening)
        async with server:
            yield
        self._path.unlink(missing_ok=True)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client. Errors that it causes do not leave this function."""
        with suppress(OSError):
            peer = peer_of(writer.get_extra_info("socket"))
            self.room.enter(peer.uid)
            try:
                await self._attend(peer, reader, writer)
            except TimeoutError:
                self._complain(peer, f"asked nothing, or did not read its answer, within {PATIENCE_S:g} s")
            finally:
                self.room.leave(peer.uid)
        writer.close()

    async def _attend(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_let_in = False
        try:
            self.room.check(peer.uid)
            is_let_in = True
            async with asyncio.timeout(PATIENCE_S):
                asked = await _read_line(reader)
            user = self._door.user(peer)
            if asked.want == "answer":
                await self._relay(peer, user, asked, reader, writer)
                return
            found = self._door.name(user) if asked.want == "name" else await self._door.login(peer, user)
            line = encode(found)
        except RankdError as error:
            self._complain(peer, error.message)
            line = encode(_refusal(error))
        except (TimeoutError, OSError):
            raise
        except Exception:  # noqa: BLE001 - one client's request must not end the service for the others
            self._log.exception("a request of user %d failed", peer.uid)
            message = "rankd failed on this request; the log of its gateway says how"
            line = encode(LoginRefused(code="internal_error", message=message, status=500))
        await _write(writer, line + b"\n")
        if is_let_in:  # a connection too many does not stay: it would keep others out
            await _drain(reader, writer)

    async def _relay(
        self, peer: Peer, user: str, asked: LoginRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass a request on, and its answer back. Both count against what may wait of this user."""
        check_asked(asked)
        self.room.reserve(peer.uid, held := asked.size)
        try:
            async with asyncio.timeout(PATIENCE_S):
                payload = await reader.readexactly(asked.size)
            answered = await self._door.ask(user, asked, payload)
            self.room.reserve(peer.uid, len(answered.payload))
            held += len(answered.payload)
            line = encode(AnswerLine(size=len(answered.payload), status=answered.status))
            await _write(writer, line + b"\n" + answered.payload)
        except asyncio.IncompleteReadError as error:
            raise Refused("bad_request", f"the request ends after {len(error.partial)} bytes") from None
        finally:
            self.room.release(peer.uid, held)

    def _complain(self, peer: Peer, message: str) -> None:
        """Log a refusal; at most one a minute for each user, so that no user fills the log."""
        now = time.monotonic()
        if now >= self._complain_at.get(peer.uid, 0.0):
            self._complain_at[peer.uid] = now + COMPLAIN_EVERY_S
            self._log.info("user %d, process %d: %s", peer.uid, peer.pid, message)


async def _read_line(reader: asyncio.StreamReader) -> LoginRequest:
    try:
        line = await reader.readuntil(b"\n")
        if len(line) > MOST_LINE_BYTES:
            raise Refused("too_large", f"the first line of a request has at most {MOST_LINE_BYTES} bytes", status=413)
        return decode_strict(line, LoginRequest)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, msgspec.MsgspecError) as error:
        raise Refused("bad_request", f"the request can't be read: {error}") from None


async def _write(writer: asyncio.StreamWriter, answer: bytes) -> None:
    async with asyncio.timeout(PATIENCE_S):
        writer.write(answer)
        await writer.drain()


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what the client still sends, for a moment: closing before would reset the connection under its answer."""
    left = MOST_REQUEST_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            writer.write_eof()
            while left > 0 and (part := await reader.read(PART_BYTES)):
                left -= len(part)


def _refusal(error: RankdError) -> LoginRefused:
    return LoginRefused(code=error.code, message=error.message, field=error.field, status=error.status)


def _listening(path: Path, *, is_shared: bool) -> socket.socket:
    """The socket, in the place of one that a process left which was killed.

    Raises:
        Refused: ``bad_path``: it can't be made.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        umask = os.umask(0o777 & ~OWNER_ONLY)
        try:
            with short_path(path) as short:
                listening.bind(short)
        finally:
            os.umask(umask)
        if is_shared:
            path.chmod(EVERYBODY)
        listening.listen(AT_ONCE)
    except OSError as error:
        listening.close()
        message = f"no socket can be made at {path}: {error.strerror or error}"
        if not path.parent.is_dir():
            message += f"; make the directory {path.parent} first, where others may pass (mode 0755)"
        raise Refused("bad_path", message, "socket") from None
    listening.setblocking(False)
    return listening
