"""The keeper's side of the relays: forks each one, gives it its streams, and waits for its end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rankd.services.keeper.proc import Identity, Session
from rankd.services.keeper.process import fulfil
from rankd.services.keeper.relay import DRAINED, LINGER_S, MOST_LINGER_S, STATUS
from rankd.services.keeper.spawn import Helper, HelperLost, encoded, session_of

DIRECTORY = "sessions"
DRAIN_S = 5.0
"""How long the end of a process waits until its last output is in its files."""
END_S = 10.0


class RelayProcess:
    """A relay that was forked. It waits for :meth:`begin`, and serves the agent at :func:`socket_of` from then on."""

    def __init__(self, helper: Helper, state: Path, session: Session) -> None:
        """Fork it, and make its socket. Blocks.

        Raises:
            OSError: it can't be forked, or the socket can't be made.
            HelperLost: the helper has ended.
        """
        self.has_ended = False
        self._deadline: asyncio.TimerHandle | None = None
        self._helper = helper
        self._session = session
        self._path = state / DIRECTORY / session.name
        self._listening = _listening(state, session.name)
        try:
            self._pid, self._control = helper.fork()
        except BaseException:
            self._listening.close()
            raise
        try:
            self._ended = os.pidfd_open(self._pid)
        except OSError:
            self._control.close()
            self._listening.close()
            helper.reap(self._pid)
            raise

    def begin(self, identity: Identity | None, streams: Sequence[int]) -> None:
        """Give it its user and its streams. They are closed here."""
        user = (identity.uid, identity.gid, list(identity.groups)) if identity else None
        plan = {"relay": session_of(self._session) | {"agent_uid": os.geteuid()}, "identity": user}
        with suppress(OSError):  # it has ended: the process finds its streams closed
            self._control.sendall(encoded(plan))
            socket.send_fds(self._control, [DRAINED], [self._listening.fileno(), *streams])
        for descriptor in streams:
            os.close(descriptor)
        self._listening.close()
        self._control.setblocking(False)

    async def drained(self, returncode: int) -> None:
        """Report the end of the process; returns once its output is in its files, or after :data:`DRAIN_S`."""
        loop = asyncio.get_running_loop()
        answered = False
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await loop.sock_sendall(self._control, STATUS.pack(returncode))
                answered = await loop.sock_recv(self._control, len(DRAINED)) == DRAINED
        if not self.has_ended:  # it has the rights of its user, who can stop it: then it never ends by itself
            self._deadline = loop.call_later(LINGER_S + (MOST_LINGER_S if answered else 0.0), self._kill)

    def _kill(self) -> None:
        if not self.has_ended:
            with suppress(OSError):
                signal.pidfd_send_signal(self._ended, signal.SIGKILL)

    async def ended(self) -> None:
        """Wait until it has ended, which is when nobody waits for the output any more."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._ended, fulfil, over)
        try:
            await over
        finally:
            loop.remove_reader(self._ended)
            self.forget()

    def forget(self) -> None:
        """Kill it, reap it, and remove its socket. Blocks until it has ended; an unkillable one is left after END_S."""
        if self.has_ended:
            return
        self.has_ended = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._control.close()
        self._listening.close()
        self._path.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        has_ended = bool(poll.poll(END_S * 1000))
        os.close(self._ended)
        if has_ended:  # the helper waits for nothing else meanwhile
            with suppress(HelperLost):
                self._helper.reap(self._pid)


def socket_of(state: Path, name: str) -> Path:
    """Where the relay of a session listens."""
    return state / DIRECTORY / name


@contextmanager
def connected(state: Path, name: str) -> Iterator[socket.socket]:
    """A connection to the relay of a session, which does not block.

    Raises:
        OSError: there is none: it has not started yet, or nobody waits for its output any more.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        descriptor = os.open(state / DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{descriptor}/{name}")
        finally:
            os.close(descriptor)
        yield connection
    finally:
        connection.close()


def _listening(state: Path, name: str) -> socket.socket:
    directory = state / DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = f"/proc/self/fd/{descriptor}/{name}"  # never too long for a socket address
        Path(path).unlink(missing_ok=True)
        os.fchmod(made.fileno(), 0o600)
        made.bind(path)
        made.listen(1)
    except BaseException:
        made.close()
        raise
    finally:
        os.close(descriptor)
    return made
