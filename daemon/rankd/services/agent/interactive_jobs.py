"""The interactive jobs of a node: their relays are told, and they are ended, when their clients have vanished."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rankd.bus.liveness import Loop
from rankd.services.agent.presence import Presence
from rankd.services.keeper.link import KeeperLink
from rankd.services.keeper.message import EndJob, SignalJob
from rankd.services.keeper.relay_frame import DETACHED, frame
from rankd.services.keeper.relay_process import connected

log = logging.getLogger("rankd.agent")

LOOP = "clients of interactive jobs"
LOOK_EVERY_S = 1.0
ABSENT_S = 5.0
"""If two looks are further apart, this process was stopped in between, and heard no client."""
ORPHANED = "orphaned"
HANG_UP_S = 1.0
"""Between SIGHUP and SIGTERM."""


class InteractiveJobs:
    """Watches them. ``can_hear``: whether clients can be heard at present, which needs the broker.

    ``times_s``: after how many seconds without a client a job is ended, and those from SIGTERM to SIGKILL.
    """

    def __init__(self, state: Path, link: KeeperLink, times_s: Callable[[], tuple[float, float]]) -> None:
        self.can_hear: Callable[[], bool] = lambda: True
        self.presence = Presence()
        self._state = state
        self._link = link
        self._times_s = times_s
        self._looked_s = time.monotonic()

    def add(self, allocation: int, *, interactive: bool, detach_ok: bool) -> None:
        """A job has started, or goes on after a restart."""
        if interactive:
            self.presence.add(allocation, time.monotonic(), detach_ok=detach_ok)

    def heard(self, allocation: int) -> None:
        """A client of the job has been heard."""
        self.presence.heard(allocation, time.monotonic())

    async def run(self, loop: Loop) -> None:
        """Look for jobs without a client until cancelled."""
        while True:
            loop.beat()
            await self.run_once(time.monotonic())
            await asyncio.sleep(LOOK_EVERY_S)

    async def run_once(self, now_s: float) -> None:
        """Look once."""
        if not self.can_hear() or now_s - self._looked_s > ABSENT_S:
            self.presence.excuse(now_s)
        self._looked_s = now_s
        orphan_s, grace_s = self._times_s()
        for allocation, detach_ok in self.presence.orphans(now_s, orphan_s):
            if detach_ok:
                log.info("allocation %d runs on without its client", allocation)
                await self.let_go(allocation)
            else:
                log.info("allocation %d has lost its client, and is ended", allocation)
                self._link.ask(SignalJob(allocation=allocation, number=signal.SIGHUP))
                end = EndJob(allocation=allocation, cause=ORPHANED, grace_s=grace_s)
                asyncio.get_running_loop().call_later(HANG_UP_S, self._link.ask, end)

    async def let_go(self, allocation: int) -> None:
        """Tell the relay that nobody reads: the job's output goes to its files only."""
        try:
            with connected(self._state, str(allocation)) as relay:
                await asyncio.get_running_loop().sock_sendall(relay, frame(DETACHED))
        except OSError:  # it starts just now: look again later
            self.heard(allocation)
