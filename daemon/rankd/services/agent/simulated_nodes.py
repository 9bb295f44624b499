"""Simulated nodes: jobs take time and no other resource; messages and reports are real ones.

One agent represents many nodes. Everything is in memory, so all jobs are lost with the agent. The next agent learns
about them when it first requests allocations: the intake expects some that this agent does not know.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import msgspec

from rankd.core.model.job_environment import simulated_run
from rankd.services.agent.carried_out import CarriedOut
from rankd.services.agent.ledger import Entry, Ledger
from rankd.services.agent.report import Reporter
from rankd.services.agent.runner import Order
from rankd.services.keeper.time_limit import TimeLimit
from rankd.services.runtime.clock import Clock
from rankd.wire.message import JobOrder, NodeHooks, Report, StartJob

Place = tuple[str, int]
"""A node's name and an allocation."""


class SimulatedNodes:
    """Jobs as timers: a job needs no task, no thread and no file."""

    def __init__(self, reporter: Reporter, clock: Clock) -> None:
        self.grace_s = 0.0
        self.max_processes = 0
        self.outputs_s: float | None = None
        self.orphan_s = 60.0
        self.hooks = NodeHooks()  # nothing runs around a simulated job
        self.instance = ""
        self.confinement = ""
        self.carried_out = CarriedOut()
        self.monitor = None
        self.around = None
        self._reporter = reporter
        self._clock = clock
        self._ledger: Ledger[Place] = Ledger()
        self._limits: dict[Place, TimeLimit] = {}

    @property
    def unable(self) -> None:
        """Always None: simulated nodes can always run jobs."""

    def use_cluster(self, name: str) -> None:
        """Do nothing: simulated jobs have no variables."""

    async def recover(self, group: asyncio.TaskGroup) -> None:
        """Do nothing: an earlier agent leaves no simulated jobs."""

    async def take(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> list[str]:  # noqa: ARG002 - no tasks here
        """Start and cancel jobs. An allocation that was started before is not started again."""
        for order in orders:
            for start in order.message.starts:
                place = (order.node, start.allocation)
                if not self._ledger.has_seen(place):
                    self._start(self._ledger.add(place, start.job), start)
        for order in orders:
            self.cancel(order.node, order.message.cancels)
            for one in order.message.orders:
                self._carry_out(order.node, one)
        return []

    def _carry_out(self, node: str, order: JobOrder) -> None:
        """Change a time limit. A simulated job has no processes, so signals reach nothing."""
        limit = self._limits.get((node, order.allocation))
        if limit is not None and order.signal is None:
            limit.change(order.time_limit_s)
        self.carried_out.add(node, order.id)

    def _start(self, entry: Entry[Place], start: StartJob) -> None:
        entry.started_at = self._clock()
        self._report(entry, kind="started")
        duration_s, exit_status = simulated_run(start.request)

        def terminate(cause: str) -> None:
            timer.cancel()
            self._end(entry, cause=cause, signal=signal.SIGTERM.value)

        limit = self._limits[entry.key] = TimeLimit(start.request.time_limit_s, lambda: terminate("timeout"))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(duration_s, lambda: self._end(entry, exit_status=exit_status))
        limit.begin()  # after the other timer: a job that ends at its limit has completed
        entry.terminate = terminate

    def cancel(self, node: str, allocations: Sequence[int]) -> None:
        """End these allocations."""
        for allocation in allocations:
            entry = self._ledger.entries.get((node, allocation))
            if entry and entry.terminate:
                entry.terminate("cancel")

    def _end(self, entry: Entry[Place], **fields: int | str) -> None:
        self._limits.pop(entry.key).stop()
        self._ledger.end(entry)
        self._report(entry, **fields)

    def _report(self, entry: Entry[Place], **fields: int | str) -> None:
        node, allocation = entry.key
        base = Report(allocation=allocation, job=entry.job, kind="ended", at=self._clock(), started_at=entry.started_at)
        self._reporter.add(node, msgspec.structs.replace(base, **fields))

    async def all_ended(self) -> None:
        """Return once no job runs."""
        await self._ledger.all_ended()

    async def leave(self) -> None:
        """End all jobs: they exist in this process only."""
        self.end_all(at_once=True)

    def end_all(self, *, at_once: bool) -> None:  # noqa: ARG002 - they end at once
        """End all jobs."""
        for entry in list(self._ledger.entries.values()):
            if entry.terminate:
                entry.terminate("agent_stopped")

    def running(self, node: str) -> list[int]:
        """The allocations of this node that have not ended. Searches the allocations of all nodes."""
        return [allocation for where, allocation in self._ledger.running() if where == node]

    def unknown(self, node: str, allocations: Sequence[int]) -> list[int]:
        """Those of these allocations that this agent does not know."""
        return [allocation for allocation in allocations if not self._ledger.has_seen((node, allocation))]

    def known(self, node: str) -> list[int]:
        """The allocations that run, or whose end is not recorded yet. Searches the allocations of all nodes."""
        return [allocation for where, allocation in self._ledger.entries if where == node]

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:
        """The intake has recorded these reports."""
        self._ledger.reported((node, report.allocation) for report in reports if report.kind == "ended")
