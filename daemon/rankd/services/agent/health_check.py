"""The node's health check: a program of the site's, one at a time, whose result goes with every heartbeat."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rankd.bus.liveness import Loops
from rankd.core.model.hook import base_environment, last_line
from rankd.services.keeper.hook_program import HookProgram, Means
from rankd.services.keeper.spawn import Helper, HelperLost
from rankd.services.runtime.clock import Clock
from rankd.wire.message import LONGEST_UNABLE, NodeHooks

log = logging.getLogger("rankd.agent")

LOOP = "health check"
LOOK_EVERY_S = 1.0
SLACK_S = 60.0
"""How much longer than its time limit a check may take on a busy machine, with its start and its cleaning up."""


class HealthCheck:
    """Runs it. ``hooks`` returns the program in force, so that a change counts at once."""

    def __init__(self, node: str, hooks: Callable[[], NodeHooks], clock: Clock) -> None:
        self.failure: str | None = None
        """Why the last check has failed; empty if it has succeeded; None if there was none."""
        self._node = node
        self._hooks = hooks
        self._clock = clock

    async def run(self, loops: Loops) -> None:
        """Check until cancelled."""
        loop = loops.add(LOOP)
        program, due_s = None, 0.0
        while True:
            loop.beat()
            hooks = self._hooks()
            if hooks.health_check != program:
                program, due_s, self.failure = hooks.health_check, 0.0, None
            if program is not None and time.monotonic() >= due_s:
                loop.beat(hooks.timeout_s + SLACK_S)
                self._note(await self._failure_of(program, hooks.timeout_s))
                due_s = time.monotonic() + hooks.health_check_period_s
            await asyncio.sleep(LOOK_EVERY_S)

    def _note(self, failure: str) -> None:
        if failure and not self.failure:
            log.error("the health check of this node fails: %s", failure)
        elif self.failure and not failure:
            log.info("the health check of this node succeeds again")
        self.failure = failure

    async def _failure_of(self, program: str, timeout_s: float) -> str:
        """Run it once; returns the last line of its output if it has failed, or how, if it has written nothing."""
        run = HookProgram(LOOP, program, base_environment(self._node), timeout_s)
        try:
            helper = Helper()
            try:
                with ThreadPoolExecutor(1) as threads:
                    failure = await run.run(Means(helper, threads, self._clock))
            finally:
                helper.close()
        except (OSError, HelperLost) as error:
            failure = f"health check {program} can't be run: {error}"
        return (last_line(run.output) or failure)[:LONGEST_UNABLE] if failure else ""
