"""One real job, from before its spawn to its end report."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

import msgspec

from rankd.core.model.job_environment import exit_of
from rankd.services.agent_process import Launch, Process, StartFailure, launch
from rankd.services.agent_state import AgentState
from rankd.wire.message import Report, StartJob

T = TypeVar("T")

log = logging.getLogger("rankd.agent")

COMPANY_CHECK_S = 0.05


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every job of a node shares."""

    state: AgentState
    threads: Executor
    report: Callable[[Report], None]
    grace_s: Callable[[], float]


class JobRun:
    """A job that is about to run. :meth:`end` may come at any time, also before the spawn."""

    def __init__(self, start: StartJob, plan: Launch, around: Surroundings) -> None:
        self._start = start
        self._plan = plan
        self._around = around
        self._cause: str | None = None
        self._process: Process | None = None
        self._started_at: float | None = None
        self._kill: asyncio.TimerHandle | None = None

    def end(self, cause: str) -> None:
        """TERM to all of its processes, and KILL after the grace; the first cause counts."""
        if self._cause is not None:
            return
        self._cause = cause
        if self._process:
            self._terminate(self._process)

    def _terminate(self, process: Process) -> None:
        process.signal_group(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        self._kill = loop.call_later(self._around.grace_s(), process.signal_group, signal.SIGKILL)

    async def run(self) -> Report:
        """Start it, report that, wait; returns the end report, which is already in the state directory."""
        if self._cause is not None:
            return await self._in_thread(lambda: self._keep(self._report(cause=self._cause)))
        started = await self._in_thread(self._launch)
        if isinstance(started, Report):
            return started
        await self._attend(started)
        # from here on no signal: its pid will be free
        self._process = None
        if self._kill:
            self._kill.cancel()
        return await self._in_thread(lambda: self._finish(started))

    def _launch(self) -> Process | Report:
        """In a thread: spawn and record."""
        started = launch(self._plan)
        if isinstance(started, StartFailure):
            log.info("job %d can't be started: %s", self._start.job, started.message)
            failure = {"exit_status": started.exit_status, "message": started.message}
            return self._keep(self._report(cause="start_failed", **failure))
        try:
            self._around.state.write_process(self._start.allocation, started.record)
        except OSError:
            # should this agent be killed, the next one still finds the process by its environment
            log.exception("can't record the process of allocation %d", self._start.allocation)
        return started

    async def _attend(self, process: Process) -> None:
        """From the spawn until the leader has ended; if it was told to end: its whole group, or the grace is over."""
        loop = asyncio.get_running_loop()
        self._process = process
        self._started_at = process.record.started_at
        self._around.report(self._report(kind="started", at=self._started_at))
        if self._cause is not None:
            self._terminate(process)
        limit_s = self._start.request.time_limit_s
        limit = None if limit_s is None else loop.call_later(limit_s, self.end, "timeout")
        await process.exited()
        if limit:
            limit.cancel()
        if self._kill:
            await self._until_alone(process, self._kill.when())

    async def _until_alone(self, process: Process, deadline: float) -> None:
        """Let the rest of the group finish what it does on TERM; nothing tells when a group is empty."""
        loop = asyncio.get_running_loop()
        while loop.time() < deadline and await self._in_thread(process.has_company):  # noqa: ASYNC110 - as said
            await asyncio.sleep(COMPANY_CHECK_S)

    def _finish(self, process: Process) -> Report:
        """In a thread: what the end was like."""
        ended = process.reap()
        exit_status, number = exit_of(ended.returncode)
        report = self._report(
            cause=self._cause,
            exit_status=exit_status,
            signal=number,
            max_rss_bytes=ended.max_rss_bytes,
            cpu_s=round(ended.cpu_s, 6),
        )
        return self._keep(report)

    def _report(self, **fields: object) -> Report:
        base = Report(
            allocation=self._start.allocation,
            job=self._start.job,
            kind="ended",
            at=time.time(),
            started_at=self._started_at,
            stdout=self._plan.stdout,
            stderr=self._plan.stderr,
        )
        return msgspec.structs.replace(base, **fields)

    def _keep(self, report: Report) -> Report:
        try:
            self._around.state.write_end(report)
        except OSError:
            log.exception("can't record the end of allocation %d; it is reported all the same", report.allocation)
        return report

    def _in_thread(self, action: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._around.threads, action)
