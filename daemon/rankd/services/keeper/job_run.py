"""One job in its keeper, from its fork to the report of its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from rankd.core.model.job_environment import exit_of
from rankd.core.model.outcome import ORPHANED, ORPHANED_MESSAGE, OUT_OF_MEMORY, PROLOG_FAILED, memory_message
from rankd.services.keeper.cgroup_job import GroupError, JobGroup, Used, measured, send
from rankd.services.keeper.job_hooks import HURRIED, HookedJob
from rankd.services.keeper.message import KeepJob, OrderJob, StartStep, end_of
from rankd.services.keeper.process import Ended, Process, not_forked
from rankd.services.keeper.relay_process import RelayProcess
from rankd.services.keeper.spawn import NOT_EXECUTABLE, HelperLost, StartFailure
from rankd.services.keeper.step_run import StepRun
from rankd.services.keeper.surroundings import Surroundings
from rankd.services.keeper.time_limit import TimeLimit
from rankd.services.runtime.life import is_set
from rankd.wire.message import Report

log = logging.getLogger("rankd.keeper")

T = TypeVar("T")

COMPANY_CHECK_S = 0.05
EMPTY_CHECK_S = 0.005
MOST_STEPS = 256
"""Shells and steps of a job that run at once on this node."""
UNKILLABLE_S = 60.0
"""How long an unkillable process (for example, its file server is dead) delays the end of its job."""


class Settled(NamedTuple):
    """The result of a job whose processes have ended. ``left``: directories that can't be removed yet."""

    used: Used
    oom_kills: int
    left: list[str]


class JobRun:
    """A job that is about to run. :meth:`end` may be called at any time."""

    def __init__(self, order: KeepJob, around: Surroundings) -> None:
        self._order = order
        self._around = around
        self._group: JobGroup = around.groups.group(str(order.allocation), order.plan.limits, order.plan.denied)
        self.hooks = HookedJob(order, around)
        self._cause: str | None = None
        self._grace_s = order.grace_s
        self._process: Process | None = None
        self._relay: RelayProcess | None = None
        self._steps: dict[str, StepRun] = {}
        self._lingering: list[RelayProcess] = []
        """Relays of ended steps. Their user can stop them, so they count."""
        self._started_at: float | None = None
        self._forked_s = time.monotonic()
        self._hang_up: asyncio.TimerHandle | None = None
        self._limit = TimeLimit(order.time_limit_s, lambda: self.end("timeout", order.grace_s))
        self._newest_order = 0
        self._early_signals: list[int] = []
        """What was to be sent before the command ran: it might have ended what was about to become the job."""
        self._kill: asyncio.TimerHandle | None = None
        self._kill_at = 0.0
        self._is_hurried = False

    @property
    def allocation(self) -> int:
        """The number of its allocation."""
        return self._order.allocation

    def started(self) -> Report | None:
        """The report of its start; None if it has not started yet."""
        return None if self._started_at is None else self._report(kind="started", at=self._started_at)

    def end(self, cause: str, grace_s: float, hang_up_s: float = 0.0) -> None:
        """Send TERM to all of its processes, and KILL after ``grace_s``. A second call does not change the cause.

        ``hang_up_s`` not 0: HUP so long before.

        If ``grace_s`` is 0, also in a second call, the processes are killed at once.
        """
        if grace_s <= 0:
            self.hooks.hurry()
        if self._cause is not None:
            if self._process and grace_s <= 0:
                self._is_hurried = True
                self._process.signal_group(signal.SIGKILL)
            return
        self._cause, self._grace_s = cause, grace_s
        if self._process and hang_up_s > 0:
            self.signal(signal.SIGHUP)
            self._hang_up = asyncio.get_running_loop().call_later(hang_up_s, self._terminate, self._process)
        elif self._process:
            self._terminate(self._process)

    def signal(self, number: int, step: str | None = None) -> None:
        """Send a signal to all of its processes, or to those of a step. Without effect after the end."""
        if step is not None:
            if found := self._steps.get(step):
                found.signal(number)
        elif self._process:
            self._process.signal_group(number)
            self._group.signal_others(number, self._process.pid)

    def carry_out(self, order: OrderJob) -> None:
        """Carry out an order once: the ids of the orders for a job ascend."""
        if order.order <= self._newest_order:
            return
        self._newest_order = order.order
        if order.signal is None:
            self._limit.change(order.time_limit_s)
        elif self._started_at is None:
            self._early_signals.append(order.signal)
        else:
            self._signal_all(order.signal)

    def _signal_all(self, number: int) -> None:
        """Send a signal to the job's processes and to those of its steps, once to each.

        A process that only holds a further node of the job gets none: it would end the job.
        """
        if self._process is None:
            return
        # chosen first: what a handler forks gets none, and what leaves the group after its signal gets no second one
        with self._group.others(self._process.pid) as others:
            if not self._order.plan.holds:
                self._process.signal_group(number)
            send(number, others)
        if not self._group.directories:
            for step in self._steps.values():
                step.signal(number)

    def start_step(self, order: StartStep) -> None:
        """Start a process beside the job's. A job that does not run has no steps; a step is started once."""
        self._lingering = [relay for relay in self._lingering if not relay.has_ended]
        is_full = len(self._steps) + len(self._lingering) >= MOST_STEPS
        if self._process is None or self._cause is not None or is_full:
            why = "it has too many at once" if is_full else "it does not run"
            message = f"job {self._order.job} takes no step: {why}"
            self._around.tell_of_step(end_of(order, self._around.clock(), message))
        elif order.step not in self._steps:
            run = self._steps[order.step] = StepRun(order, self._order.plan, self._group.joins(), self._around)
            self._around.keep(self._keep_step(run))

    async def _keep_step(self, run: StepRun) -> None:
        """Run a step to its end. A failure ends only this step."""
        try:
            await run.run()
        except HelperLost:
            raise
        except Exception:
            log.exception("step %s of job %d fails", run.order.step, self._order.job)
        del self._steps[run.order.step]
        if run.relay is not None and not run.relay.has_ended:
            self._lingering.append(run.relay)

    def steps(self) -> list[str]:
        """Those that run."""
        return list(self._steps)

    def _terminate(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        self._kill_at = loop.time() + self._grace_s
        self._kill = loop.call_later(self._grace_s, process.signal_group, signal.SIGKILL)
        process.signal_group(signal.SIGTERM)
        self._group.signal_others(signal.SIGTERM, process.pid)
        for step in self._steps.values():
            step.signal(signal.SIGTERM)

    async def run(self) -> Report:
        """Start the job, report the start, and wait for its end; returns the report of the end.

        Any failure here ends only this job.

        Raises:
            FileExistsError, FileNotFoundError: the allocation was started before, or never claimed.
            HelperLost: the helper has ended. No job can be started or waited for any more.
        """
        if self.hooks.has_prolog and (early := await self._prepare()) is not None:
            return early
        started = await self._in_thread(self._fork)
        if isinstance(started, StartFailure):
            return await self._not_started(started)
        try:
            return await self._attend(started)
        except BaseException:
            await self._in_thread(started.abandon)
            await self._forget_relay()
            raise

    async def _prepare(self) -> Report | None:
        """Make the group, and run the prolog in front of the job; returns the report of the end if there is no job."""
        try:
            await self._in_thread(self.hooks.begin_prolog)
            await self._in_thread(self._group.make)
        except GroupError as error:
            return await self._not_started(StartFailure(NOT_EXECUTABLE, str(error)))
        if (failed := await self.hooks.before(self._group.directories)) is not None:
            drain = None if failed.endswith(HURRIED) else failed  # the agent ends, and the prolog is well
            return self._finished(cause=self._cause or PROLOG_FAILED, message=failed, drain=drain)
        return self._finished(cause=self._cause) if self._cause is not None else None

    async def give_up(self, error: Exception) -> Report:
        """Kill what is left of a job whose :meth:`run` failed; returns the report of its end."""
        message = f"rankd could not run this job on this node: {type(error).__name__}: {error}"[:1000]
        await self._empty_group()
        cause = "start_failed" if self._started_at is None else "keeper_failed"
        return self._finished(cause=cause, exit_status=NOT_EXECUTABLE, message=message)

    def _fork(self) -> Process | StartFailure:
        """Make a process that waits, record it, and only then let it begin. Runs in a thread."""
        with self._around.state.marker(self._order.allocation) as mark:
            try:
                if not self.hooks.has_prolog:
                    self._group.make()
                if session := self._order.plan.session:
                    self._relay = RelayProcess(self._around.helper, self._around.state.root, session)
                process = Process(self._around.helper, self._around.clock)
            except GroupError as error:
                return StartFailure(NOT_EXECUTABLE, str(error))
            except OSError as error:
                return not_forked(error)
            self._forked_s = time.monotonic()
            mark(process.record)
        process.begin(self._order.plan, self._group.joins())
        return process

    async def _not_started(self, failure: StartFailure) -> Report:
        log.info("job %d can't be started: %s", self._order.job, failure.message)
        await self._forget_relay()
        await self._empty_group()
        return self._finished(cause="start_failed", exit_status=failure.exit_status, message=failure.message)

    async def _attend(self, process: Process) -> Report:
        """Wait until the leader has ended. If the job is being ended, wait up to the grace time for its whole group."""
        self._process = process
        if self._cause is not None:
            self._terminate(process)
        self._limit.begin()
        try:
            if failure := await process.executed(self._order.plan):
                await process.exited()
                await self._in_thread(process.reap)
                return await self._not_started(failure)
            self._started_at = process.record.started_at
            if self._relay:
                self._relay.begin(self._order.plan.identity, process.streams)
            self._around.tell(self._report(kind="started", at=self._started_at))
            for number in self._early_signals:
                self._signal_all(number)
            await process.exited()
            await self._company_ended(process)
        finally:
            self._limit.stop()
            for timer in (self._hang_up, self._kill):
                if timer:
                    timer.cancel()
            # from here on, no signal may be sent: its pid will be free
            self._process = None
        return await self._settle(process)

    async def _company_ended(self, process: Process) -> None:
        """If the job is being ended, give its other processes their time: after HUP, and after TERM."""
        if self._hang_up and not self._kill:
            await self._until_alone(process, self._hang_up.when())
            self._hang_up.cancel()
            if not self._kill and not self._is_hurried:
                self._terminate(process)
        if self._kill:
            await self._until_alone(process, self._kill_at)

    async def _until_alone(self, process: Process, deadline: float) -> None:
        """Wait until the job's other processes end, unless they are to be killed at once.

        It polls, because no event reports an empty group.
        """
        loop = asyncio.get_running_loop()

        def has_company() -> bool:
            return bool(self._group.members()) if self._group.directories else process.has_company()

        while not self._is_hurried and loop.time() < deadline and await self._in_thread(has_company):  # noqa: ASYNC110
            await asyncio.sleep(COMPANY_CHECK_S)

    async def _settle(self, process: Process) -> Report:
        """Handle the leader's end: read its status, kill the rest, remove the group; returns the report of the end."""
        for step in list(self._steps.values()):
            step.signal(signal.SIGKILL)
            await is_set(step.over, UNKILLABLE_S)
        ended, settled = await self._in_thread(lambda: self._reap(process))
        unkillable = 0
        if settled is None:
            unkillable = await self._empty_group()
            settled = await self._in_thread(self._measure_and_remove)
        self._around.groups.remove_later(settled.left)
        if self._relay:
            relay, self._relay = self._relay, None
            await relay.drained(ended.returncode)
            self._around.keep(relay.ended())
        return self._ended(ended, settled, unkillable)

    async def _forget_relay(self) -> None:
        relay, self._relay = self._relay, None
        if relay:
            await self._in_thread(relay.forget)

    def _reap(self, process: Process) -> tuple[Ended, Settled | None]:
        """Reap the leader. If no other process of the job is left, also measure and remove the group; else None.

        Runs in a thread, so that the usual case takes one call.
        """
        ended = process.reap()
        return ended, None if self._group.members() else self._measure_and_remove()

    def _measure_and_remove(self) -> Settled:
        """Counts kills for memory also of a command that succeeded: the kernel may have killed one of its children."""
        return Settled(self._group.used(), self._group.oom_kills(), self._group.remove())

    async def _empty_group(self) -> int:
        """KILL the processes in the job's group until it is empty; returns how many could not be killed."""
        deadline = time.monotonic() + UNKILLABLE_S
        while left := await self._in_thread(self._group.members):
            if time.monotonic() > deadline:
                log.error("job %d: %d processes can't be killed: %s", self._order.job, len(left), left[:10])
                return len(left)
            await self._in_thread(self._group.kill)
            await asyncio.sleep(EMPTY_CHECK_S)
        return 0

    def _ended(self, ended: Ended, settled: Settled, unkillable: int) -> Report:
        exit_status, number = exit_of(ended.returncode)
        too_large = self._cause is None and settled.oom_kills > 0
        message = ORPHANED_MESSAGE if self._cause == ORPHANED else None
        if too_large:
            message = self._memory_message(settled.used)
        if unkillable:
            message = f"{unkillable} processes of the job could not be killed and are still on the node"
        used = settled.used
        return self._report(
            at=self._end_at(),
            cause=OUT_OF_MEMORY if too_large else self._cause,
            message=message,
            exit_status=exit_status,
            signal=number,
            max_rss_bytes=ended.max_rss_bytes if used.peak_bytes is None else used.peak_bytes,
            cpu_s=round(ended.cpu_s if used.cpu_s is None else used.cpu_s, 6),
            measured=measured(used),
        )

    def _memory_message(self, used: Used) -> str:
        limits = self._order.plan.limits
        asked = None if limits is None else limits.memory_bytes
        return memory_message(asked, used.peak_bytes, self._order.plan.environment.get("RANKD_NODE_NAME"))

    def _finished(self, **fields: object) -> Report:
        """The report of the end of a job that did not run to its end."""
        self._around.groups.remove_later(self._group.remove())
        return self._report(at=self._end_at(), **fields)

    def _end_at(self) -> float:
        """The start plus the elapsed time, so that a change of the system's clock does not change the duration."""
        if self._started_at is None:
            return self._around.clock()
        return self._started_at + time.monotonic() - self._forked_s

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
