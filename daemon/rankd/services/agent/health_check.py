"""The node's health check: a program of the site's, one at a time, whose result goes with every heartbeat.

It ends with its agent, also if that is killed: its helper kills it then. What is left all the same, such as processes
of a group of their own, carries the mark of the agent's state directory, and the next agent ends it before it checks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rankd.bus.liveness import Loops
from rankd.core.model.hook import base_environment, last_line
from rankd.services.agent.leftover import HEALTH_CHECK, HOOK_VARIABLE, STATE_VARIABLE, end_health_check
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
    """Runs it. ``hooks`` returns the program in force, so that a change counts at once.

    ``state``: the agent's state directory, by which the processes of an earlier agent's check are found.
    """

    def __init__(self, node: str, hooks: Callable[[], NodeHooks], clock: Clock, state: Path | None = None) -> None:
        self.failure: str | None = None
        """Why the last check has failed; empty if it has succeeded; None if there was none."""
        self._node = node
        self._hooks = hooks
        self._clock = clock
        self._state = str(state.resolve()) if state is not None else ""

    async def run(self, loops: Loops) -> None:
        """Check until cancelled."""
        loop = loops.add(LOOP)
        program, due_s = None, 0.0
        await self._end_earlier()
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

    async def _end_earlier(self) -> None:
        if self._state and (ended := await asyncio.to_thread(end_health_check, self._state)):
            log.warning("ended %d processes of the health check of an agent that was killed", ended)

    def _note(self, failure: str) -> None:
        if failure and not self.failure:
            log.error("the health check of this node fails: %s", failure)
        elif self.failure and not failure:
            log.info("the health check of this node succeeds again")
        self.failure = failure

    async def _failure_of(self, program: str, timeout_s: float) -> str:
        """Run it once; returns the last line of its output if it has failed, or how, if it has written nothing."""
        marks = {HOOK_VARIABLE: HEALTH_CHECK, **({STATE_VARIABLE: self._state} if self._state else {})}
        run = HookProgram(LOOP, program, base_environment(self._node) | marks, timeout_s)
        try:
            helper = Helper(ends_children=True)
            try:
                with ThreadPoolExecutor(1) as threads:
                    failure = await run.run(Means(helper, threads, self._clock))
            finally:
                helper.close()
        except (OSError, HelperLost) as error:
            failure = f"health check {program} can't be run: {error}"
        return (last_line(run.output) or failure)[:LONGEST_UNABLE] if failure else ""
