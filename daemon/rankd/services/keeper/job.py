"""One job from its spawn to its end report, as its keeper runs it."""

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
from rankd.services.keeper.cgroup import ControlGroups
from rankd.services.keeper.cgroup_job import GroupError, JobGroup, measured
from rankd.services.keeper.message import KeepJob
from rankd.services.keeper.process import Ended, Process, not_forked
from rankd.services.keeper.spawn import NOT_EXECUTABLE, Helper, StartFailure
from rankd.services.keeper.state import AgentState
from rankd.wire.message import Report

log = logging.getLogger("rankd.keeper")

T = TypeVar("T")

COMPANY_CHECK_S = 0.05
EMPTY_CHECK_S = 0.005
UNKILLABLE_S = 60.0
"""A process that the kernel does not let end (a dead file server) delays its job's end for so long."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every job of a node shares."""

    state: AgentState
    groups: ControlGroups
    helper: Helper
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
        self._clock = time.monotonic()
        self._kill: asyncio.TimerHandle | None = None

    @property
    def allocation(self) -> int:
        """Under which it runs."""
        return self._order.allocation

    def started(self) -> Report | None:
        """The start report, once it runs."""
        return None if self._started_at is None else self._report(kind="started", at=self._started_at)

    def end(self, cause: str, grace_s: float) -> None:
        """TERM to all of its processes, and KILL after the grace. The first cause counts; no grace kills at once."""
        if self._cause is not None:
            if self._process and grace_s <= 0:
                self._process.signal_group(signal.SIGKILL)
            return
        self._cause, self._grace_s = cause, grace_s
        if self._process:
            self._terminate(self._process)

    def _terminate(self, process: Process) -> None:
        self._kill = asyncio.get_running_loop().call_later(self._grace_s, process.signal_group, signal.SIGKILL)
        process.signal_group(signal.SIGTERM)
        self._group.signal_others(signal.SIGTERM, process.pid)

    async def run(self) -> Report:
        """Start it, tell that, wait; the end report.

        Whatever this job makes go wrong here is the end of this job, and of no other.

        Raises:
            FileExistsError, FileNotFoundError: it was started before, or never claimed.
            HelperLost: no job can be started or waited for any more.
        """
        started = await self._in_thread(self._fork)
        if isinstance(started, StartFailure):
            return await self._not_started(started)
        try:
            return await self._attend(started)
        except BaseException:
            await self._in_thread(started.abandon)
            raise

    async def give_up(self, error: Exception) -> Report:
        """The end report of a job on which :meth:`run` failed; what is left of it is killed."""
        message = f"rankd could not run this job on this node: {type(error).__name__}: {error}"[:1000]
        await self._empty_group()
        cause = "start_failed" if self._started_at is None else "keeper_failed"
        return self._finished(cause=cause, exit_status=NOT_EXECUTABLE, message=message)

    def _fork(self) -> Process | StartFailure:
        """In a thread: a process in which nothing runs yet, and that is on record before anything does."""
        with self._around.state.marker(self._order.allocation) as mark:
            try:
                self._group.make()
                process = Process(self._around.helper)
            except GroupError as error:
                return StartFailure(NOT_EXECUTABLE, str(error))
            except OSError as error:
                return not_forked(error)
            self._clock = time.monotonic()
            mark(process.record)
        process.begin(self._order.plan, self._group.joins())
        return process

    async def _not_started(self, failure: StartFailure) -> Report:
        log.info("job %d can't be started: %s", self._order.job, failure.message)
        await self._empty_group()
        return self._finished(cause="start_failed", exit_status=failure.exit_status, message=failure.message)

    async def _attend(self, process: Process) -> Report:
        """From the fork until the leader has ended; if it was told to end: its whole group, or the grace is over."""
        self._process, limit_s = process, self._order.time_limit_s
        loop = asyncio.get_running_loop()
        if self._cause is not None:
            self._terminate(process)
        limit = None if limit_s is None else loop.call_later(limit_s, self.end, "timeout", self._order.grace_s)
        try:
            if failure := await process.executed(self._order.plan):
                await process.exited()
                await self._in_thread(process.reap)
                return await self._not_started(failure)
            self._started_at = process.record.started_at
            self._around.tell(self._report(kind="started", at=self._started_at))
            await process.exited()
            if self._kill:
                await self._until_alone(process, self._kill.when())
        finally:
            for timer in (limit, self._kill):
                if timer:
                    timer.cancel()
            # from here on no signal: its pid will be free
            self._process = None
        ended, is_empty = await self._in_thread(lambda: (process.reap(), not self._group.members()))
        return self._reaped(ended, 0 if is_empty else await self._empty_group())

    async def _until_alone(self, process: Process, deadline: float) -> None:
        """Let the rest of the job finish what it does on TERM; nothing tells when a group is empty."""
        loop = asyncio.get_running_loop()

        def has_company() -> bool:
            return bool(self._group.members()) if self._group.directories else process.has_company()

        while loop.time() < deadline and await self._in_thread(has_company):  # noqa: ASYNC110 - as said
            await asyncio.sleep(COMPANY_CHECK_S)

    async def _empty_group(self) -> int:
        """KILL what is in the job's group until nothing is; how many processes could not be ended."""
        deadline = time.monotonic() + UNKILLABLE_S
        while left := await self._in_thread(self._group.members):
            if time.monotonic() > deadline:
                log.error("job %d: %d processes can't be killed: %s", self._order.job, len(left), left[:10])
                return len(left)
            await self._in_thread(self._group.kill)
            await asyncio.sleep(EMPTY_CHECK_S)
        return 0

    def _reaped(self, ended: Ended, left: int) -> Report:
        exit_status, number = exit_of(ended.returncode)
        went_wrong = bool(exit_status or number) and self._cause is None
        too_large = went_wrong and self._group.oom_kills() > 0
        message = "the job went over its memory limit; ask for more" if too_large else None
        if left:
            message = f"{left} processes of the job could not be killed and are still on the node"
        used = self._group.used()
        return self._finished(
            cause="out_of_memory" if too_large else self._cause,
            message=message,
            exit_status=exit_status,
            signal=number,
            max_rss_bytes=ended.max_rss_bytes if used.peak_bytes is None else used.peak_bytes,
            cpu_s=round(ended.cpu_s if used.cpu_s is None else used.cpu_s, 6),
            measured=measured(used),
        )

    def _finished(self, **fields: object) -> Report:
        self._around.groups.remove(self._group)
        return self._report(at=self._now(), **fields)

    def _now(self) -> float:
        """The end by the start and the time that has passed: whoever sets the clock meanwhile changes no duration."""
        if self._started_at is None:
            return time.time()
        return self._started_at + time.monotonic() - self._clock

    def _in_thread(self, action: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._around.threads, action)

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
