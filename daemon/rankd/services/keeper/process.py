"""One job's process, as its keeper holds it: fork, start, signal, wait.

The job is its own session, so one signal reaches all of its processes that have not left it. Until
:meth:`Process.reap` the leader stays a zombie, so no other process can get its pid or its group's id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from rankd.services.keeper.proc import Launch, all_pids, is_of_group, start_time_of
from rankd.services.keeper.spawn import LONGEST_ANSWER, NOT_EXECUTABLE, Helper, StartFailure, failure_of, plan_of
from rankd.services.keeper.state import ProcessRecord
from rankd.services.keeper.terminal import STREAMS
from rankd.services.runtime.clock import Clock

log = logging.getLogger("rankd.keeper")

ABANDON_S = 10.0
MOST_STREAMS = 8


class Ended(NamedTuple):
    """How a process ended. Memory and time include the children that it waited for."""

    returncode: int
    max_rss_bytes: int
    cpu_s: float


class Process:
    """A child of the helper, leader of a session and process group. :meth:`begin` turns it into the job."""

    def __init__(self, helper: Helper, clock: Clock) -> None:
        """Fork the child.

        Raises:
            OSError: it can't be forked, or can't be watched.
            HelperLost: the helper has ended.
        """
        self._helper = helper
        self._reaped = False
        self.streams: list[int] = []
        """The descriptors of an interactive process's files and streams, once it is executed; see :mod:`.terminal`."""
        self.pid, self._channel = helper.fork()
        try:
            self.descriptor = os.pidfd_open(self.pid)
        except OSError as error:  # out of file descriptors: the agent's ulimit -n has to be raised
            self._channel.close()  # this ends the child
            helper.reap(self.pid)
            raise OSError(error.errno, f"{error.strerror}; raise the agent's ulimit -n") from error
        self.record = ProcessRecord(pid=self.pid, start_time=start_time_of(self.pid) or 0, started_at=clock())

    def begin(self, launch: Launch, joins: Sequence[str]) -> None:
        """Let the child enter its control groups, drop its rights, open its files, and run the command."""
        with suppress(OSError):  # the child has ended meanwhile, and its parent will see that
            self._channel.sendall(plan_of(launch, joins))
        self._channel.setblocking(False)

    async def executed(self, launch: Launch) -> StartFailure | None:
        """Wait until the command runs or the child has ended; returns why it can't be run, None if it runs."""
        loop = asyncio.get_running_loop()
        answer = b""
        if launch.session is not None:
            answer, self.streams = await received(self._channel)
            answer = answer.removeprefix(STREAMS)
        with suppress(OSError):
            while part := await loop.sock_recv(self._channel, LONGEST_ANSWER):
                answer += part
        self._channel.close()
        if not answer:
            return None
        for descriptor in self.streams:  # nobody serves the streams of a command that does not run
            os.close(descriptor)
        self.streams = []
        return failure_of(answer, launch)

    async def exited(self) -> None:
        """Wait until the leader has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.descriptor, fulfil, ended)
        try:
            await ended
        finally:
            loop.remove_reader(self.descriptor)

    def signal_group(self, number: int) -> None:
        """Send a signal to all processes of the group. Does nothing after :meth:`reap`.

        Processes that run as another user now, such as those of sudo, are left alone without the right to signal them.
        """
        if self._reaped:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # the child has not made its session yet
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.descriptor, number)
        except PermissionError as error:
            log.warning("no process of group %d can be signalled: %s", self.pid, error)

    def has_company(self) -> bool:
        """Whether the group has living processes besides the leader. Searches /proc."""
        return any(pid != self.pid and is_of_group(pid, self.pid) for pid in all_pids())

    def reap(self) -> Ended:
        """Kill the rest of the group, and read how its leader, which has ended, ended.

        Raises:
            HelperLost: the helper has ended.
        """
        self.signal_group(signal.SIGKILL)
        self._reaped = True
        os.close(self.descriptor)
        waited = self._helper.reap(self.pid)
        return Ended(os.waitstatus_to_exitcode(waited.status), waited.max_rss_bytes, waited.cpu_s)

    def abandon(self) -> None:
        """Kill the process and forget it. Blocks until it has ended; an unkillable one is left after ABANDON_S."""
        if self._reaped:
            return
        self._channel.close()
        self.signal_group(signal.SIGKILL)
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if poll.poll(ABANDON_S * 1000):
            self.reap()


async def received(channel: socket.socket) -> tuple[bytes, list[int]]:
    """The next bytes on a channel, and the descriptors that come with them."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(channel, fulfil, readable)
    try:
        await readable
    finally:
        loop.remove_reader(channel)
    try:
        part, descriptors, _, _ = socket.recv_fds(channel, LONGEST_ANSWER, MOST_STREAMS)
    except OSError:
        return b"", []
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return part, descriptors


def not_forked(error: OSError) -> StartFailure:
    """The failure for a job for which no process could be made."""
    return StartFailure(NOT_EXECUTABLE, f"can't start a process on this node: {error.strerror}")


def fulfil(future: asyncio.Future[None]) -> None:
    """Give a future its result, once."""
    if not future.done():
        future.set_result(None)
