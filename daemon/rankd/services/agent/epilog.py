"""Epilogs of allocations whose keeper was killed: the agent runs them itself."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import msgspec

from rankd.core.model.hook import failure
from rankd.services.keeper.hook_program import HookProgram, Means
from rankd.services.keeper.spawn import Helper, HelperLost
from rankd.services.keeper.state import EPILOG, AgentState, Leftover
from rankd.services.runtime.clock import Clock
from rankd.wire.message import Report

log = logging.getLogger("rankd.agent")

AT_ONCE = 4
INTERRUPTED = "was interrupted, because the process that ran it was killed; check the node, then resume it"


class Epilogs:
    """Runs them, a few at once. An epilog that was interrupted is not run again, and drains the node."""

    def __init__(self, node: str, state: AgentState, clock: Clock) -> None:
        self._node = node
        self._state = state
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def after(self, leftover: Leftover, report: Report) -> Report:
        """Run what is due of an allocation without processes; returns its report, which drains the node on failure."""
        epilog = leftover.claim.epilog
        if epilog is None or leftover.epilog is None:
            return report
        if leftover.epilog == "interrupted":
            return self._drained(report, failure(EPILOG, epilog.program, INTERRUPTED, b""))
        async with self._turns:
            try:
                self._state.begin_hook(leftover.claim.allocation, EPILOG)
                failed = await self._run(HookProgram(EPILOG, epilog.program, epilog.environment, epilog.timeout_s))
            except (OSError, HelperLost) as error:
                failed = failure(EPILOG, epilog.program, f"can't be run: {error}", b"")
        if failed is not None:
            return self._drained(report, failed)
        self._state.finish_epilog(leftover.claim.allocation)
        return report

    async def _run(self, program: HookProgram) -> str | None:
        helper = Helper()
        try:
            with ThreadPoolExecutor(1) as threads:
                return await program.run(Means(helper, threads, self._clock))
        finally:
            helper.close()

    def _drained(self, report: Report, why: str) -> Report:
        log.error("job %d: %s", report.job, why)
        return msgspec.structs.replace(report, drain=report.drain or why)
