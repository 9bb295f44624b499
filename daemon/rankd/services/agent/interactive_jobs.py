"""The interactive jobs of a node: their relays are told, and they are ended, when their clients have vanished."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from rankd.bus.liveness import Loop
from rankd.core.errors import Refused
from rankd.core.model.outcome import ORPHANED
from rankd.services.agent.attach_session import AttachSession, Node
from rankd.services.agent.presence import Presence
from rankd.services.agent.session import Send, Session
from rankd.services.agent.step_report import StepReports
from rankd.services.keeper.link import KeeperLink
from rankd.services.keeper.message import EndJob, StepHappened
from rankd.services.keeper.relay_frame import DETACHED, frame
from rankd.services.keeper.relay_process import connected
from rankd.services.keeper.state import Claim
from rankd.wire.session import AttachWish, Grant

log = logging.getLogger("rankd.agent")

LOOP = "clients of interactive jobs"
LOOK_EVERY_S = 1.0
ABSENT_S = 5.0
"""If two looks are further apart, this process was stopped in between, and heard no client."""
HANG_UP_S = 1.0
"""Between SIGHUP and SIGTERM."""


class InteractiveJobs:
    """Watches them. ``can_hear``: whether clients can be heard at present, which needs the broker.

    ``steps``: reports their ends. ``times_s``: after how many seconds without a client a job is
    ended, and those from SIGTERM to SIGKILL.
    """

    def __init__(
        self, state: Path, link: KeeperLink, times_s: Callable[[], tuple[float, float]], steps: StepReports
    ) -> None:
        self.can_hear: Callable[[], bool] = lambda: True
        self.presence = Presence()
        self._state = state
        self._link = link
        self._times_s = times_s
        self._steps = steps
        self._looked_s = time.monotonic()
        self._attached: dict[str, AttachSession] = {}
        self._node = Node(state, link, self.heard, steps.over)
        link.on_step = self.on_step

    def attach(self, grant: Grant, send: Send, accepts: Callable[[str], bool]) -> Session:
        """A session with a job's processes, which takes the place of an earlier one."""
        if not isinstance(grant.wish, AttachWish):
            raise Refused("unknown_session", "the grant is for another kind of session")
        session = AttachSession(grant, grant.wish, self._node, send, accepts)
        if (earlier := self._attached.get(session.name)) is not None:
            earlier.replace()
        self._attached[session.name] = session
        session.on_close = lambda: self._forget(session)
        return session

    def _forget(self, session: AttachSession) -> None:
        if self._attached.get(session.name) is session:
            del self._attached[session.name]

    def on_step(self, step: StepHappened) -> None:
        """The keeper says what has happened to a step, or what an earlier agent may not have heard."""
        session = self._attached.get(step.step)
        self._steps.happened(step, None if session is None else session.recorded)
        if session is not None:
            session.on_step(step)

    def add(self, claim: Claim) -> None:
        """A job has started, or goes on after a restart."""
        if claim.interactive:
            self.presence.add(claim.allocation, time.monotonic(), detach_ok=claim.detach_ok)

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
            for session in self._attached.values():
                session.excuse()
        self._looked_s = now_s
        orphan_s, grace_s = self._times_s()
        for allocation, detach_ok in self.presence.orphans(now_s, orphan_s):
            if detach_ok:
                log.info("allocation %d runs on without its client", allocation)
                await self.let_go(allocation)
            else:
                log.info("allocation %d has lost its client, and is ended", allocation)
                self._link.ask(EndJob(allocation=allocation, cause=ORPHANED, grace_s=grace_s, hang_up_s=HANG_UP_S))

    async def let_go(self, allocation: int) -> None:
        """Tell the relay that nobody reads: the job's output goes to its files only."""
        try:
            with connected(self._state, str(allocation)) as relay:
                await asyncio.get_running_loop().sock_sendall(relay, frame(DETACHED))
        except OSError:  # it starts just now: look again later
            self.heard(allocation)
