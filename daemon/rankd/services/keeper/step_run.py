"""One shell or step in a running job: a process in the job's control group. It ends with the job."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from rankd.core.model.job_environment import exit_of
from rankd.core.model.slurm_environment import slurm_step
from rankd.services.keeper.message import StartStep, StepHappened, end_of
from rankd.services.keeper.proc import Launch
from rankd.services.keeper.process import Process, not_forked
from rankd.services.keeper.relay_process import RelayProcess
from rankd.services.keeper.spawn import NOT_EXECUTABLE, StartFailure
from rankd.services.keeper.surroundings import Surroundings

log = logging.getLogger("rankd.keeper")

T = TypeVar("T")


def launch_of(job: Launch, order: StartStep) -> Launch:
    """How to start a step: as its job, with another command, and without files of its own."""
    environment = job.environment | order.environment
    return msgspec.structs.replace(
        job,
        command=order.command,
        environment=environment | slurm_step(environment),
        cwd=order.cwd or job.cwd,
        stdin=None,
        stdout=os.devnull,
        stderr=os.devnull,
        append=True,
        session=order.session,
    )


class StepRun:
    """A step that is about to run. :meth:`signal` may be called at any time."""

    def __init__(self, order: StartStep, job: Launch, joins: Sequence[str], around: Surroundings) -> None:
        self.order = order
        self._launch = launch_of(job, order)
        self._joins = joins
        self._around = around
        self._process: Process | None = None
        self.relay: RelayProcess | None = None
        self._is_killed = False
        self.over = asyncio.Event()

    def signal(self, number: int) -> None:
        """Send a signal to its processes."""
        self._is_killed = self._is_killed or number == signal.SIGKILL
        if self._process:
            self._process.signal_group(number)

    async def run(self) -> None:
        """Run to the end, and report it. A failure ends only this step."""
        try:
            self._tell(await self._run())
        except OSError as error:
            failure = StartFailure(NOT_EXECUTABLE, f"can't start a process on this node: {error.strerror}")
            self._tell(self._not_started(failure))
        finally:
            self.over.set()

    async def _run(self) -> StepHappened:
        started = await self._in_thread(self._fork)
        if isinstance(started, StartFailure):
            return self._not_started(started)
        process, self.relay = started
        relay, self._process = self.relay, process
        if self._is_killed:
            process.signal_group(signal.SIGKILL)
        try:
            failure = await process.executed(self._launch)
            if failure is None:
                relay.begin(self._launch.identity, process.streams)
                self._around.keep(relay.ended())
                self._tell(StepHappened(allocation=self.order.allocation, step=self.order.step, kind="started"))
            else:
                await self._in_thread(relay.forget)
            await process.exited()
            ended = await self._in_thread(process.reap)
        except BaseException:
            await self._in_thread(process.abandon)
            raise
        finally:
            self._process = None
        if failure is not None:
            return self._not_started(failure)
        await relay.drained(ended.returncode)
        exit_status, number = exit_of(ended.returncode)
        return msgspec.structs.replace(self._end(), exit_status=exit_status, signal=number)

    def _fork(self) -> tuple[Process, RelayProcess] | StartFailure:
        """Runs in a thread."""
        try:
            relay = RelayProcess(self._around.helper, self._around.state.root, self.order.session)
        except OSError as error:
            return not_forked(error)
        try:
            process = Process(self._around.helper, self._around.clock)
        except OSError as error:
            relay.forget()
            return not_forked(error)
        process.begin(self._launch, self._joins)
        return process, relay

    def _not_started(self, failure: StartFailure) -> StepHappened:
        return msgspec.structs.replace(self._end(failure.message), exit_status=failure.exit_status)

    def _end(self, message: str | None = None) -> StepHappened:
        return end_of(self.order, self._around.clock(), message)

    def _tell(self, message: StepHappened) -> None:
        self._around.tell_of_step(message)

    def _in_thread(self, action: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._around.threads, action)
