"""One job's process, as its keeper holds it: forked, started, signalled, waited for.

The job is a session of its own, so one signal reaches all of its processes that have not left it. Until
:meth:`Process.reap` the leader stays a zombie, and neither its pid nor its group's id can be anybody else's.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from rankd.services.keeper.proc import Launch, all_pids, is_of_group, start_time_of
from rankd.services.keeper.spawn import LONGEST_ANSWER, NOT_EXECUTABLE, Helper, StartFailure, failure_of, plan_of
from rankd.services.keeper.state import ProcessRecord
from rankd.services.runtime.clock import Clock

ABANDON_S = 10.0


class Ended(NamedTuple):
    """How a process ended. Memory and time are of it and of those children that it waited for."""

    returncode: int
    max_rss_bytes: int
    cpu_s: float


class Process:
    """A child of the helper, leader of a session and process group. It becomes the job by :meth:`begin`."""

    def __init__(self, helper: Helper, clock: Clock) -> None:
        """Fork it.

        Raises:
            OSError: it can't be forked, or not watched.
            HelperLost: there is no helper any more.
        """
        self._helper = helper
        self._reaped = False
        self.pid, self._channel = helper.fork()
        try:
            self.descriptor = os.pidfd_open(self.pid)
        except OSError as error:  # no descriptor is left: raise the agent's ulimit -n
            self._channel.close()  # which ends the child
            helper.reap(self.pid)
            raise OSError(error.errno, f"{error.strerror}; raise the agent's ulimit -n") from error
        self.record = ProcessRecord(pid=self.pid, start_time=start_time_of(self.pid) or 0, started_at=clock())

    def begin(self, launch: Launch, joins: Sequence[str]) -> None:
        """Let it step into its control groups, drop its rights, open its files, and run the command."""
        with suppress(OSError):  # it was ended meanwhile, which its parent will hear
            self._channel.sendall(plan_of(launch, joins))
        self._channel.setblocking(False)

    async def executed(self, launch: Launch) -> StartFailure | None:
        """Wait until the command runs, or the child has ended without; the reason where it can't be run."""
        loop = asyncio.get_running_loop()
        answer = b""
        with suppress(OSError):
            while part := await loop.sock_recv(self._channel, LONGEST_ANSWER):
                answer += part
        self._channel.close()
        return failure_of(answer, launch) if answer else None

    async def exited(self) -> None:
        """Wait until the leader has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.descriptor, _fulfil, ended)
        try:
            await ended
        finally:
            loop.remove_reader(self.descriptor)

    def signal_group(self, number: int) -> None:
        """Send a signal to all processes of its group; nothing once it was reaped."""
        if self._reaped:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # it has not made its session yet
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.descriptor, number)

    def has_company(self) -> bool:
        """Whether processes of its group other than the leader live. Looks through /proc."""
        return any(pid != self.pid and is_of_group(pid, self.pid) for pid in all_pids())

    def reap(self) -> Ended:
        """Kill what is left of the group, and read how the leader, which has ended, did so.

        Raises:
            HelperLost: there is no helper any more.
        """
        self.signal_group(signal.SIGKILL)
        self._reaped = True
        os.close(self.descriptor)
        waited = self._helper.reap(self.pid)
        return Ended(os.waitstatus_to_exitcode(waited.status), waited.max_rss_bytes, waited.cpu_s)

    def abandon(self) -> None:
        """End it and forget it. Blocks until it has ended; one that the kernel does not let end is left as it is."""
        if self._reaped:
            return
        self._channel.close()
        self.signal_group(signal.SIGKILL)
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if poll.poll(ABANDON_S * 1000):
            self.reap()


def not_forked(error: OSError) -> StartFailure:
    """Why no process could be made for a job."""
    return StartFailure(NOT_EXECUTABLE, f"can't start a process on this node: {error.strerror}")


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
