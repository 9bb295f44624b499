"""One job from its spawn to its end report, as its keeper runs it."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor

import msgspec

from rankd.core.model.job_environment import exit_of
from rankd.services.agent_cgroup import ControlGroups, JobGroup
from rankd.services.agent_process import Ended, Process, StartFailure, launch
from rankd.services.agent_state import AgentState
from rankd.services.keeper_message import KeepJob
from rankd.wire.message import Report

log = logging.getLogger("rankd.keeper")

COMPANY_CHECK_S = 0.05


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every job of a node shares."""

    state: AgentState
    groups: ControlGroups
    threads: Executor
    tell: Callable[[Report], None]


class JobRun:
    """A job that is about to run. :meth:`end` may come at any time."""

    def __init__(self, order: KeepJob, around: Surroundings) -> None:
        self._order = order
        self._around = around
        self._group: JobGroup = around.groups.group(str(order.allocation), order.plan.limits)
        self._cause: str | None = None
        self._grace_s = order.grace_s
        self._process: Process | None = None
        self._started_at: float | None = None
        self._started_clock = 0.0
        self._kill: asyncio.TimerHandle | None = None

    @property
    def allocation(self) -> int:
        """Under which it runs."""
        return self._order.allocation

    def started(self) -> Report | None:
        """The start report, once it runs."""
        return None if self._started_at is None else self._report(kind="started", at=self._started_at)

    def end(self, cause: str, grace_s: float) -> None:
        """TERM to all of its processes, and KILL after the grace; the first cause counts."""
        if self._cause is not None:
            return
        self._cause, self._grace_s = cause, grace_s
        if self._process:
            self._terminate(self._process)

    def _terminate(self, process: Process) -> None:
        process.signal_group(signal.SIGTERM)
        self._kill = asyncio.get_running_loop().call_later(self._grace_s, process.signal_group, signal.SIGKILL)

    async def run(self) -> Report:
        """Start it, tell that, wait; the end report.

        Raises:
            FileExistsError, FileNotFoundError: it was started before, or never claimed.
        """
        loop = asyncio.get_running_loop()
        started = await loop.run_in_executor(self._around.threads, self._launch)
        if isinstance(started, StartFailure):
            log.info("job %d can't be started: %s", self._order.job, started.message)
            return self._finished(cause="start_failed", exit_status=started.exit_status, message=started.message)
        self._started_at, self._started_clock = started.record.started_at, time.monotonic()
        self._around.tell(self._report(kind="started", at=self._started_at))
        return await self._attend(started)

    def _launch(self) -> Process | StartFailure:
        """In a thread: spawn and record."""
        with self._around.state.marker(self._order.allocation) as mark:
            started = launch(self._order.plan, self._group)
            if isinstance(started, Process):
                mark(started.record)
            return started

    async def _attend(self, process: Process) -> Report:
        """From the spawn until the leader has ended; if it was told to end: its whole group, or the grace is over."""
        self._process, limit_s = process, self._order.time_limit_s
        loop = asyncio.get_running_loop()
        if self._cause is not None:
            self._terminate(process)
        limit = None if limit_s is None else loop.call_later(limit_s, self.end, "timeout", self._order.grace_s)
        await process.exited()
        if limit:
            limit.cancel()
        if self._kill:
            await self._until_alone(process, self._kill.when())
            self._kill.cancel()
        # from here on no signal: its pid will be free
        self._process = None
        return self._reaped(process.reap())

    async def _until_alone(self, process: Process, deadline: float) -> None:
        """Let the rest of the group finish what it does on TERM; nothing tells when a group is empty."""
        loop = asyncio.get_running_loop()
        threads = self._around.threads
        while loop.time() < deadline and await loop.run_in_executor(threads, process.has_company):  # noqa: ASYNC110 - as said
            await asyncio.sleep(COMPANY_CHECK_S)

    def _reaped(self, ended: Ended) -> Report:
        exit_status, number = exit_of(ended.returncode)
        went_wrong = bool(exit_status or number) and self._cause is None
        too_large = went_wrong and self._group.oom_kills() > 0
        return self._finished(
            cause="out_of_memory" if too_large else self._cause,
            message="the job went over its memory limit; ask for more" if too_large else None,
            exit_status=exit_status,
            signal=number,
            max_rss_bytes=ended.max_rss_bytes,
            cpu_s=round(ended.cpu_s, 6),
        )

    def _finished(self, **fields: object) -> Report:
        self._around.groups.remove(self._group)
        return self._report(at=self._now(), **fields)

    def _now(self) -> float:
        """The end by the start and the time that has passed: whoever sets the clock meanwhile changes no duration."""
        if self._started_at is None:
            return time.time()
        return self._started_at + time.monotonic() - self._started_clock

    def _report(self, **fields: object) -> Report:
        base = Report(
            allocation=self._order.allocation,
            job=self._order.job,
            kind="ended",
            at=0.0,
            started_at=self._started_at,
            stdout=self._order.plan.stdout,
            stderr=self._order.plan.stderr,
        )
        return msgspec.structs.replace(base, **fields)
