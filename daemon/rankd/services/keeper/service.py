"""The keeper: holds a node's jobs while its agent stops and starts.

It is a separate process, started by the first agent of a state directory. It spawns the jobs that the agent asks for,
enforces time limits, and writes every end into the state directory before it reports it. So an agent that restarts
finds its jobs running, or their ends. The keeper ends with its last job once no agent is connected. If the keeper is
killed, its jobs are lost: the agent ends them and reports that.

Run as ``python -m rankd.services.keeper.service STATE LISTENING_DESCRIPTOR``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from rankd.services.keeper.cgroup import ControlGroups
from rankd.services.keeper.cgroup_device import raise_locked_memory
from rankd.services.keeper.cgroup_layout import tag_of
from rankd.services.keeper.connection import uid_of
from rankd.services.keeper.job_run import JobRun
from rankd.services.keeper.message import (
    LONGEST_LINE,
    EndJob,
    Happened,
    Hello,
    Ordered,
    OrderJob,
    Ping,
    Pong,
    SignalJob,
    StartStep,
    StepHappened,
    Tell,
    end_of,
    line,
    read_ask,
)
from rankd.services.keeper.spawn import Helper, HelperLost
from rankd.services.keeper.state import AgentState
from rankd.services.keeper.surroundings import Surroundings
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.hidden_process import hide
from rankd.wire.message import Report

log = logging.getLogger("rankd.keeper")

THREADS = 4
CLEAN_S = 1.0
WRITE_AGAIN_S = 1.0
ROOT = 0
MOST_ENDED_STEPS = 512
FIRST_AGENT_S = 60.0
"""For this many seconds it waits for the agent that has started it."""


class Keeper:
    """The jobs, and one connection at a time to an agent."""

    def __init__(
        self, state: AgentState, groups: ControlGroups, helper: Helper, threads: Executor, clock: Clock = time.time
    ) -> None:
        self.idle = asyncio.Event()
        self._groups = groups
        self._around = Surroundings(
            state=state,
            groups=groups,
            helper=helper,
            threads=threads,
            tell=self._tell_report,
            tell_of_step=self._tell_of_step,
            keep=self._keep_beside,
            clock=clock,
        )
        self._beside: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._runs: dict[int, JobRun] = {}
        self._unwritten: dict[int, Report] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._agent: asyncio.StreamWriter | None = None
        self._ended_steps: deque[StepHappened] = deque(maxlen=MOST_ENDED_STEPS)

    async def serve(self, listening: socket.socket) -> None:
        """Serve until no agent is connected and no job runs."""
        async with asyncio.TaskGroup() as group:
            self._group = group

            async def on_agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._attend_agent(reader, writer, group)

            server = await asyncio.start_unix_server(on_agent, sock=listening, limit=LONGEST_LINE)
            waiting = asyncio.get_running_loop().call_later(FIRST_AGENT_S, self._rest)
            await self.idle.wait()
            waiting.cancel()
            server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLEAN_S):
                while not self._groups.is_clean():  # noqa: ASYNC110 - there is no event for the end of a killed process
                    await asyncio.sleep(CLEAN_S / 20)

    def _rest(self) -> None:
        if self._agent is None and not self._runs and not self._unwritten and not self._beside:
            self.idle.set()

    def _keep_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the jobs: a relay that still has output for an agent, or a step."""
        if self._group is None:
            raise RuntimeError("the keeper does not serve")
        task = self._group.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside_done)

    def _beside_done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        self._rest()

    async def _attend_agent(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: asyncio.TaskGroup
    ) -> None:
        """Send the greeting, then carry out requests until the agent disconnects. A newer agent replaces an older."""
        if not _is_ours(writer):
            writer.close()
            return
        if _has_gone(writer):
            await self._end_as_asked(reader)
            writer.close()
            return
        if self._agent is not None:
            self._agent.close()
        self._agent = writer
        hello = Hello(
            pid=os.getpid(),
            running=list(self._runs),
            started=[report for run in self._runs.values() if (report := run.started())],
            unwritten=list(self._unwritten.values()),
            limits=self._groups.statement,
            pongs=True,
            confines=self._groups.confines,
            confinement=self._groups.confinement,
            sessions=True,
            hooks=True,
            orders=True,
            ended_steps=list(self._ended_steps),
        )
        writer.write(line(hello))
        with suppress(OSError):
            # requests of an earlier agent that were not read in time are reported as lost by the present agent
            while (asked := await reader.readline()) and self._agent is writer:
                self._do(asked, group)
                await asyncio.sleep(0)  # lets tasks of ended jobs run
        if self._agent is writer:
            self._agent = None
        writer.close()
        self._rest()

    async def _end_as_asked(self, reader: asyncio.StreamReader) -> None:
        """Read requests of an agent that disconnected while this process was stopped: end jobs, but start none."""
        with suppress(OSError):
            while asked := await reader.readline():
                with suppress(msgspec.MsgspecError):
                    if isinstance(ask := read_ask(asked), EndJob) and (run := self._runs.get(ask.allocation)):
                        run.end(ask.cause, ask.grace_s, ask.hang_up_s)

    def _do(self, asked: bytes, group: asyncio.TaskGroup) -> None:
        try:
            ask = read_ask(asked)
        except msgspec.MsgspecError as error:  # a partial line: its agent was killed while it wrote
            log.warning("can't read what the agent asks: %s", error)
            return
        if isinstance(ask, EndJob):
            if run := self._runs.get(ask.allocation):
                run.end(ask.cause, ask.grace_s, ask.hang_up_s)
        elif isinstance(ask, SignalJob | StartStep):
            self._do_in_job(ask)
        elif isinstance(ask, OrderJob):
            if run := self._runs.get(ask.allocation):
                run.carry_out(ask)
            self._tell(Ordered(order=ask.order))
        elif isinstance(ask, Ping):
            self._tell(Pong())
        elif ask.allocation not in self._runs:
            self._runs[ask.allocation] = JobRun(ask, self._around)
            group.create_task(self._keep(self._runs[ask.allocation]))

    def _do_in_job(self, ask: SignalJob | StartStep) -> None:
        run = self._runs.get(ask.allocation)
        if isinstance(ask, SignalJob):
            if run:
                run.signal(ask.number, ask.step)
        elif run:
            run.start_step(ask)
        else:
            self._tell_of_step(end_of(ask, self._around.clock(), "the job does not run on this node any more"))

    async def _keep(self, run: JobRun) -> None:
        """Run a job to its end. A failure ends only this job."""
        try:
            if (report := await self._report_of(run)) is not None:
                if run.hooks.has_epilog:  # so that the end is known if this process is killed during the epilog
                    self._store_end(report)
                self._write_end(await run.hooks.after(report))
        except HelperLost as error:
            _end_with_helper(error)
        del self._runs[run.allocation]
        self._rest()

    async def _report_of(self, run: JobRun) -> Report | None:
        """Run a job; returns the report of its end, or None if it was started before or never claimed."""
        try:
            return await run.run()
        except (FileExistsError, FileNotFoundError) as error:
            log.warning("allocation %d is not started (again): %s", run.allocation, error)
            return None
        except HelperLost:
            raise
        except Exception as error:
            log.exception("allocation %d fails", run.allocation)
            return await run.give_up(error)

    def _write_end(self, report: Report) -> None:
        """Write the end to disk, then report it. On a full disk it is reported, and written once there is room."""
        self._store_end(report)
        self._tell_report(report)

    def _store_end(self, report: Report) -> None:
        if steps := [step for step in self._ended_steps if step.allocation == report.allocation]:
            with suppress(OSError):  # without room, their ends are only in the memory of this process
                self._around.state.write_steps(report.allocation, steps)
        try:
            self._around.state.write_end(report)
        except FileNotFoundError:  # the agent has removed the directory: no agent waits for this end
            log.warning("the end of allocation %d cannot be written: its directory is gone", report.allocation)
        except OSError as error:
            log.warning("the end of allocation %d cannot be written yet: %s", report.allocation, error)
            self._unwritten[report.allocation] = report
            self._try_again_later()

    def _try_again_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(WRITE_AGAIN_S, self._write_left)

    def _write_left(self) -> None:
        """Write the ends that could not be written before."""
        self._retry = None
        for allocation, report in list(self._unwritten.items()):
            # without a directory the end is already recorded: the agent and the intake know it
            with suppress(OSError):
                with suppress(FileNotFoundError):
                    self._around.state.write_end(report)
                del self._unwritten[allocation]
        if self._unwritten:
            self._try_again_later()
        self._rest()

    def _tell_report(self, report: Report) -> None:
        self._tell(Happened(report=report))

    def _tell_of_step(self, message: StepHappened) -> None:
        """Tell the agent; the next agent, too, of an end, since this one may be killed before it has reported it."""
        if message.kind == "ended" and message.number is not None:
            self._ended_steps.append(message)
        self._tell(message)

    def _tell(self, message: Tell) -> None:
        if self._agent is not None:
            self._agent.write(line(message))


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether a process of this keeper's own user, or of root, has connected; the socket's mode says the same."""
    try:
        uid = uid_of(writer.get_extra_info("socket"))
    except OSError:
        return False
    if uid in (os.geteuid(), ROOT):
        return True
    log.warning("a process of user %d connected to the socket of this node's keeper: it is turned away", uid)
    return False


def _has_gone(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is closed. Its earlier messages can be read as long as nothing is written to it."""
    poll = select.poll()
    poll.register(writer.get_extra_info("socket"), 0)
    return bool(poll.poll(0))


def _end_with_helper(error: HelperLost) -> None:
    """End this process: it can't start or wait for jobs. The agent ends the remaining ones, and reports them lost."""
    log.error("the helper that starts jobs has ended: %s; this keeper ends, its jobs are lost", error)
    os._exit(1)


def main(arguments: list[str]) -> int:
    """Hold jobs until there are none and no agent asks for more."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    hide()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # the agent gets the same signal, and sends us what it means for jobs; jobs would inherit SIG_IGN
        signal.signal(number, lambda *_: None)
    state = AgentState(Path(arguments[0]))
    keeper_socket = socket.socket(fileno=int(arguments[1]))
    groups = ControlGroups(tag_of(state.root))
    helper = Helper()
    raise_locked_memory()  # after the helper has started: jobs keep the usual limit

    async def run() -> None:
        asyncio.get_running_loop().add_reader(helper.ended, _end_with_helper, HelperLost("it was killed"))
        with ThreadPoolExecutor(THREADS) as threads:
            await Keeper(state, groups, helper, threads).serve(keeper_socket)
        asyncio.get_running_loop().remove_reader(helper.ended)
        helper.close()

    uvloop.run(run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
