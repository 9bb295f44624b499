"""A real node: runs commands as process groups of their own, and reports their starts and ends.

Jobs run as the user who started the agent. Running jobs of an agent that was killed are ended by the next one and
reported with cause ``agent_restarted``; taking them over comes later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from rankd.core.model.job_environment import JobPlace, job_environment, job_path
from rankd.services.agent_job import JobRun, Surroundings
from rankd.services.agent_ledger import Entry, Ledger
from rankd.services.agent_leftover import STATE_VARIABLE, end_leftovers
from rankd.services.agent_process import Launch
from rankd.services.agent_report import Reporter
from rankd.services.agent_runner import Order
from rankd.services.agent_state import AgentState, Claim, Leftover
from rankd.wire.message import Report, StartJob

T = TypeVar("T")

log = logging.getLogger("rankd.agent")

THREADS = 4


class _Start(NamedTuple):
    """A start, and the order that asked for it."""

    job: StartJob
    sequence: int


class RealNode:
    """The jobs of one node. Used in one event loop; what blocks happens in a few threads."""

    def __init__(self, name: str, state: AgentState, output_dir: Path, reporter: Reporter) -> None:
        self.grace_s = 5.0
        self._name = name
        self._state = state
        self._output = str(output_dir.absolute() / "job-%j")
        self._cwd = Path.cwd()
        self._reporter = reporter
        self._threads = ThreadPoolExecutor(THREADS, "rankd-agent")
        self._ledger: Ledger[int] = Ledger()
        self._around = Surroundings(
            state=state, threads=self._threads, report=self._report, grace_s=lambda: self.grace_s
        )

    async def recover(self) -> None:
        """End what still runs, and report everything that ended unreported."""
        leftovers = await self._in_thread(self._state.scan)
        if interrupted := [leftover for leftover in leftovers if leftover.ended is None]:
            ended = await self._in_thread(lambda: self._end_leftovers(interrupted))
            log.warning("%d jobs of an earlier agent ended: %d processes", len(interrupted), ended)
        for leftover in leftovers:
            claim = leftover.claim
            entry = self._ledger.add(claim.allocation, claim.job, claim.sequence)
            await self._end(entry, leftover.ended or _interrupted(entry, leftover))

    def _end_leftovers(self, leftovers: Iterable[Leftover]) -> int:
        processes = [leftover.process for leftover in leftovers if leftover.process]
        allocations = [leftover.claim.allocation for leftover in leftovers]
        return end_leftovers(str(self._state.root), allocations, processes, self.grace_s)

    async def take(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> None:
        """Claim all starts durably, then start and cancel; what was claimed before is not started again.

        Raises:
            OSError: the claims can't be written; nothing was started.
        """
        starts = [_Start(job, order.sequence) for order in orders for job in order.message.starts]
        cancels = [allocation for order in orders for allocation in order.message.cancels]
        fresh = {start.job.allocation: start for start in starts if not self._ledger.has_seen(start.job.allocation)}
        unknown = [a for a in dict.fromkeys(cancels) if a not in fresh and not self._ledger.has_seen(a)]
        made = await self._claim(list(fresh.values()), unknown)
        for start in starts:
            await self._identify(start)
        for allocation in made & fresh.keys():
            self._start(fresh[allocation], group)
        for allocation in cancels:
            self._cancel(allocation)
        for allocation in unknown:
            await self._bury(allocation)

    async def _claim(self, starts: Sequence[_Start], unknown: Sequence[int]) -> set[int]:
        claims = [Claim(allocation=s.job.allocation, job=s.job.job, sequence=s.sequence) for s in starts]
        claims += [Claim(allocation=allocation, job=0, sequence=0) for allocation in unknown]
        return await self._in_thread(lambda: self._state.claim(claims)) if claims else set()

    def _start(self, start: _Start, group: asyncio.TaskGroup) -> None:
        entry = self._ledger.add(start.job.allocation, start.job.job, start.sequence)
        run = JobRun(start.job, self._plan(start.job), self._around)
        entry.terminate = run.end
        group.create_task(self._run(entry, run))

    async def _run(self, entry: Entry[int], run: JobRun) -> None:
        report = await run.run()
        self._ledger.end(entry)
        self._report(report)

    def _cancel(self, allocation: int) -> None:
        entry = self._ledger.entries.get(allocation)
        if entry and entry.terminate:
            entry.terminate("cancel")

    async def _bury(self, allocation: int) -> None:
        """Cancelled before its start came: reported with job 0, and remembered, so that it never starts."""
        entry = self._ledger.add(allocation, 0, 0)
        await self._end(entry, _never_attended(entry, "cancel"))

    async def _identify(self, start: _Start) -> None:
        """The start of an allocation that was cancelled before: now its report can name the job."""
        entry = self._ledger.entries.get(start.job.allocation)
        if entry and not entry.job:
            self._ledger.identify(entry, start.job.job, start.sequence)
            await self._end(entry, _never_attended(entry, "cancel"))

    async def _end(self, entry: Entry[int], report: Report) -> None:
        await self._in_thread(lambda: self._state.write_end(report))
        self._ledger.end(entry)
        self._report(report)

    def _report(self, report: Report) -> None:
        self._reporter.add(self._name, report)

    async def stop(self) -> None:
        """End all jobs and wait for them."""
        for entry in self._ledger.entries.values():
            if entry.terminate:
                entry.terminate("agent_stopped")
        await self._ledger.all_ended()

    def close(self) -> None:
        """Wait for the threads: directories may still have to be removed."""
        self._threads.shutdown()

    def running(self, node: str) -> list[int]:
        """Allocations that have not ended."""
        return self._ledger.running() if node == self._name else []

    def unsettled(self) -> list[int]:
        """Orders of which it is not known whether they come again."""
        return self._ledger.unsettled()

    def settle(self, sequence: int) -> None:
        """The order won't come again."""
        self._forget(self._ledger.settle(sequence))

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:  # noqa: ARG002 - the protocol's
        """These reports are in the stream."""
        self._forget(self._ledger.reported(report.allocation for report in reports if report.kind == "ended"))

    def _forget(self, allocations: list[int]) -> None:
        if allocations:
            self._threads.submit(self._state.remove, allocations)

    def _plan(self, start: StartJob) -> Launch:
        request = start.request
        place = JobPlace(
            job=start.job,
            allocation=start.allocation,
            user=start.user,
            name=start.name,
            nodes=start.nodes,
            rank=start.rank,
        )
        cwd = str(self._cwd / (request.cwd or ""))
        environment = job_environment(os.environ, request, place)
        return Launch(
            command=request.command,
            environment={**environment, STATE_VARIABLE: str(self._state.root)},
            cwd=cwd,
            stdin=job_path(request.stdin, place, cwd) if request.stdin else None,
            stdout=job_path(request.stdout or f"{self._output}.out", place, cwd),
            stderr=job_path(request.stderr or f"{self._output}.err", place, cwd),
            append=len(start.nodes) > 1,
        )

    def _in_thread(self, action: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, action)


def _interrupted(entry: Entry[int], leftover: Leftover) -> Report:
    """The end of an earlier agent's job."""
    started_at = leftover.process.started_at if leftover.process else None
    return msgspec.structs.replace(_never_attended(entry, "agent_restarted"), started_at=started_at)


def _never_attended(entry: Entry[int], cause: str) -> Report:
    """The end of an allocation whose process this agent did not see end."""
    return Report(allocation=entry.key, job=entry.job, kind="ended", at=time.time(), cause=cause)
