"""A real node: runs commands as process groups of their own, and reports their starts and ends.

Jobs run as the user who started the agent. Running jobs of an agent that was killed are ended by the next one and
reported with cause ``agent_restarted``; taking them over comes later.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from rankd.core.model.job_environment import JobPlace, job_environment, job_path
from rankd.services.agent_ledger import Entry, Ledger
from rankd.services.agent_leftover import STATE_VARIABLE, end_leftovers
from rankd.services.agent_process import Launch, Process, StartFailure, launch
from rankd.services.agent_report import Reporter
from rankd.services.agent_runner import Order
from rankd.services.agent_state import AgentState, Claim, Leftover
from rankd.wire.message import Report, StartJob

T = TypeVar("T")

log = logging.getLogger("rankd.agent")

THREADS = 4
COMPANY_CHECK_S = 0.05


class RealNode:
    """The jobs of one node. Used in one event loop; what blocks happens in a few threads."""

    def __init__(
        self, name: str, state: AgentState, output_dir: Path, reporter: Reporter, group: asyncio.TaskGroup
    ) -> None:
        self.grace_s = 5.0
        self._name = name
        self._state = state
        self._output_dir = output_dir
        self._cwd = os.getcwd()  # noqa: PTH109 - text is what is needed
        self._reporter = reporter
        self._group = group
        self._threads = ThreadPoolExecutor(THREADS, "rankd-agent")
        self._ledger = Ledger()
        self._removable: list[int] = []
        self._stopping = False

    async def recover(self) -> None:
        """End what still runs, and report everything that ended unreported."""
        leftovers = await self._in_thread(self._state.scan)
        open_ = [leftover for leftover in leftovers if leftover.ended is None]
        if open_:
            records = [leftover.process for leftover in open_ if leftover.process]
            names = [leftover.claim.allocation for leftover in open_]
            state = str(self._state.root)
            ended = await self._in_thread(end_leftovers, state, names, records, self.grace_s)
            log.warning("an earlier agent left %d allocations open; ended %d processes of theirs", len(open_), ended)
        for leftover in leftovers:
            await self._recover(leftover)

    async def _recover(self, leftover: Leftover) -> None:
        entry = Entry(leftover.claim)
        self._ledger.add(entry)
        await self._end(entry, leftover.ended or _report(entry, cause="agent_restarted"))

    async def take(self, orders: Sequence[Order]) -> None:
        """Claim all starts durably, then start and cancel; what was claimed before is not started again."""
        starts = {
            start.allocation: (start, order.sequence)
            for order in orders
            for start in order.message.starts
            if not self._is_known(start, order.sequence)
        }
        cancels = [(c, order.sequence) for order in orders for c in order.message.cancels]
        unknown = {c: n for c, n in cancels if c not in starts and not self._ledger.has_seen(c)}
        claims = [Claim(allocation=a, job=s.job, sequence=n) for a, (s, n) in starts.items()]
        claims += [Claim(allocation=a, job=0, sequence=n) for a, n in unknown.items()]
        made = await self._in_thread(self._state.claim, claims) if claims else set()
        for claim in claims:
            self._ledger.add(Entry(claim))
        for allocation, _ in cancels:
            self.cancel(allocation)
        for allocation in sorted(made & starts.keys()):
            self._group.create_task(self._run(self._ledger.entries[allocation], starts[allocation][0]))
        for allocation in unknown:
            entry = self._ledger.entries[allocation]
            await self._end(entry, _report(entry, cause="cancel"))

    def _is_known(self, start: StartJob, sequence: int) -> bool:
        """Whether this allocation was taken before. One cancelled before it came now gets its report."""
        entry = self._ledger.entries.get(start.allocation)
        if entry and entry.claim.job == 0:
            entry.claim = msgspec.structs.replace(entry.claim, job=start.job, sequence=sequence)
            entry.reported = False
            self._group.create_task(self._end(entry, _report(entry, cause="cancel")))
        return self._ledger.has_seen(start.allocation)

    def cancel(self, allocation: int) -> None:
        """End it; nothing if it has ended."""
        if entry := self._ledger.entries.get(allocation):
            self._terminate(entry, "cancel")

    async def stop(self) -> None:
        """End all jobs and wait for them."""
        self._stopping = True
        for entry in self._ledger.entries.values():
            self._terminate(entry, "agent_stopped")
        await self._ledger.all_ended()

    def close(self) -> None:
        """Let the threads go; the last directories are removed first."""
        self._threads.shutdown()

    def running(self, node: str) -> list[int]:
        """Allocations that have not ended."""
        return self._ledger.running() if node == self._name else []

    def unsettled(self) -> list[int]:
        """Orders of which it is not known whether they are acknowledged."""
        return self._ledger.unsettled()

    def settle(self, sequence: int) -> None:
        """The order will not be delivered again."""
        self._forget(self._ledger.settle(sequence))

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:  # noqa: ARG002 - a protocol
        """Ends that are in the stream need no memory any more, once their orders are settled."""
        self._forget(self._ledger.reported(report.allocation for report in reports if report.kind == "ended"))

    def _forget(self, allocations: list[int]) -> None:
        if allocations:
            self._threads.submit(self._state.remove, allocations)

    async def _run(self, entry: Entry, start: StartJob) -> None:
        """One job from its start to its end."""
        plan = self._plan(start)
        started: Process | StartFailure | None = None
        if entry.cause is None:
            started = await self._in_thread(self._launch, start.allocation, plan)
        if started is None:
            await self._end(entry, _report(entry, cause=entry.cause))
        elif isinstance(started, StartFailure):
            log.info("job %d: %s", start.job, started.message)
            failure = {"exit_status": started.exit_status, "message": started.message}
            await self._end(entry, _report(entry, cause="start_failed", **failure))
        else:
            await self._attend(entry, started, plan, start.request.time_limit_s)

    def _launch(self, allocation: int, plan: Launch) -> Process | StartFailure:
        process = launch(plan)
        if isinstance(process, Process):
            try:
                self._state.write_process(allocation, process.record)
            except OSError as error:
                # found again by its environment, if this agent is killed
                log.error("can't record process %d of allocation %d: %s", process.pid, allocation, error)  # noqa: TRY400
        return process

    def _plan(self, start: StartJob) -> Launch:
        request = start.request
        fields = {field: getattr(start, field) for field in JobPlace.__struct_fields__}
        place = JobPlace(**fields)
        cwd = str(Path(self._cwd, request.cwd or "."))
        environment = job_environment(os.environ, request, place)
        default = str(self._output_dir / "job-%j").replace
        return Launch(
            command=request.command,
            environment={**environment, STATE_VARIABLE: str(self._state.root)},
            cwd=cwd,
            stdin=job_path(request.stdin, place, cwd) if request.stdin else None,
            stdout=job_path(request.stdout or "", place, cwd),
            stderr=job_path(request.stderr or "", place, cwd),
            append=len(start.nodes) > 1,
        )
