"""A real node: its keeper runs each command as a process group. This module reports their starts and ends.

An agent takes over the jobs that the keeper of a killed agent still holds. A job is lost if no keeper holds it and its
end is not recorded. Its processes are ended, and it is reported with the cause ``lost``.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from rankd.core.errors import Refused
from rankd.services.agent.carried_out import CarriedOut
from rankd.services.agent.device_monitor import DeviceMonitor
from rankd.services.agent.device_owner import Owners
from rankd.services.agent.device_watch import Machine
from rankd.services.agent.end_report import left_behind, lost_report, refused_report, unhooked_report
from rankd.services.agent.epilog import Epilogs
from rankd.services.agent.held_device import sort_out, still_held
from rankd.services.agent.interactive_jobs import LOOP as CLIENTS_LOOP
from rankd.services.agent.interactive_jobs import InteractiveJobs
from rankd.services.agent.ledger import Entry, Ledger
from rankd.services.agent.leftover import end_leftovers
from rankd.services.agent.output import LOOP as OUTPUTS_LOOP
from rankd.services.agent.output import OldOutputs
from rankd.services.agent.plan import Planner
from rankd.services.agent.report import Reporter
from rankd.services.agent.runner import Around, Order
from rankd.services.agent.step_report import StepReports
from rankd.services.keeper.link import LOG, KeeperLink
from rankd.services.keeper.message import EndJob, JobHooks, KeepJob
from rankd.services.keeper.proc import Launch
from rankd.services.keeper.state import AgentState, EpilogClaim, Leftover, claim_of
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import end_tasks, is_set
from rankd.services.runtime.log_file import keep_small
from rankd.wire.message import NodeHooks, Report, StartJob

T = TypeVar("T")

log = logging.getLogger("rankd.agent")

THREADS = 4
UP_S = 5.0
PULSE_LOOP = "pulse of the keeper"
KEEPER_BOUND_S = 120.0
"""Within the grace time, the jobs of a lost keeper are ended and another keeper is started."""


class RealNode:
    """The jobs of one node. Used in one event loop; blocking calls run in a few threads."""

    def __init__(
        self,
        name: str,
        state: AgentState,
        planner: Planner,
        reporter: Reporter,
        clock: Clock,
        machine: Machine | None = None,
    ) -> None:
        self.grace_s = 5.0
        self.instance = state.instance
        self.confinement = ""
        """Whether jobs can be kept from devices of other jobs, in words; empty until the keeper has said so."""
        self._name = name
        self._state = state
        self._planner = planner
        self._reporter = reporter
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "rankd-agent")
        self._ledger: Ledger[int] = Ledger()
        self._outputs = OldOutputs(planner.output, self._ledger.jobs, has_users_rights=planner.has_users_rights)
        self._tidying: list[asyncio.Task[None]] = []
        self._link = KeeperLink(state.root, self._happened, self._lose_all)
        self.carried_out = CarriedOut()
        self._link.on_ordered = lambda order: self.carried_out.add(name, order)
        self.orphan_s = 60.0
        self._epilogs = Epilogs(name, state, clock)
        self._can_hook = True
        self._group: asyncio.TaskGroup | None = None
        steps = StepReports(clock, lambda end: reporter.add(name, end))
        self.interactive = InteractiveJobs(state.root, self._link, lambda: (self.orphan_s, self.grace_s), steps)
        self.monitor = self._monitor(machine) if machine else None

    def use_cluster(self, name: str) -> None:
        """See :class:`.Runner`."""
        self._planner.cluster = name

    def _monitor(self, machine: Machine) -> DeviceMonitor:
        ledger = self._ledger
        owners = Owners(self._state.root)
        return DeviceMonitor(machine, owners, self._planner.denial, ledger.holders, lambda: set(ledger.running()))

    @property
    def around(self) -> Around:
        """What sessions with jobs of this node need."""
        return Around(self._planner.identity, self._ledger.is_running, self.interactive.attach)

    @property
    def max_processes(self) -> int:
        """How many processes a job may have at once."""
        return self._planner.max_processes

    @max_processes.setter
    def max_processes(self, number: int) -> None:
        self._planner.max_processes = number

    @property
    def hooks(self) -> NodeHooks:
        """The programs that run before and after each job."""
        return self._planner.hooks

    @hooks.setter
    def hooks(self, hooks: NodeHooks) -> None:
        self._planner.hooks = hooks

    @property
    def unable(self) -> str | None:
        """Why this node can't run jobs at present; None if it can."""
        return self._link.unable

    @property
    def outputs_s(self) -> float | None:
        """For how many seconds output files are kept; None means for ever."""
        return self._outputs.keep_s

    @outputs_s.setter
    def outputs_s(self, seconds: float | None) -> None:
        self._outputs.keep_s = seconds

    async def recover(self, group: asyncio.TaskGroup) -> None:
        """Take over the running jobs, and report all ends that were not reported."""
        self._group = group
        hello = await self._link.connect()
        self._can_hook = hello.hooks
        self.carried_out.ask = self._link.ask if hello.orders else None
        log.info("%s", hello.limits)
        self.confinement = hello.confinement
        self._planner.confines = hello.confines
        leftovers = await self._in_thread(self._state.scan)
        kept = {leftover.claim.allocation for leftover in leftovers}
        await self._in_thread(lambda: self._planner.scripts.keep_only(kept))
        kept_steps = [step for leftover in leftovers for step in leftover.steps]  # of an earlier keeper, too
        for step in (*hello.ended_steps, *kept_steps):
            self.interactive.on_step(step)
        running = frozenset(hello.running)
        unwritten = {report.allocation: report for report in hello.unwritten}
        lost = []
        for leftover in leftovers:
            entry = self._ledger.add(leftover.claim.allocation, leftover.claim.job, leftover.claim.devices)
            if entry.key in running:
                self._planner.denial.deny_still(leftover.claim.files)
                self._watch(entry)
                self.interactive.add(leftover.claim)
            elif ended := unwritten.get(entry.key):  # the keeper lives, and has run the epilog
                self._ended(entry, ended)
            elif leftover.ended:
                self._after_epilog(entry, leftover, leftover.ended)
            else:
                lost.append((entry, leftover))
        for report in hello.started:
            self._report(report)
        log.info("%d jobs of an earlier agent run on, %d are lost", len(running), len(lost))
        await self._lose(lost)
        loops = self._reporter.loops
        pulse = self._link.feel_pulse(loops.add(PULSE_LOOP))
        tidying = (keep_small([self._state.root / LOG]), self._outputs.run(loops, self._clock), pulse)
        self._tidying = [group.create_task(task) for task in (*tidying, self.interactive.run(loops.add(CLIENTS_LOOP)))]
        loops.reasons.append(self._link.waits_for)
        group.create_task(self._link.run(loops.add("keeper", KEEPER_BOUND_S)))

    def _watch(self, entry: Entry[int]) -> None:
        """Note that the allocation runs: from now on it can be ended."""
        allocation = entry.key

        def terminate(cause: str) -> None:
            self._link.ask(EndJob(allocation=allocation, cause=cause, grace_s=self.grace_s))

        entry.terminate = terminate

    def _happened(self, report: Report) -> None:
        """Handle a report of the keeper. The state directory already has the end that it reports."""
        entry = self._ledger.entries.get(report.allocation)
        if report.kind == "started":
            self._report(report)
        elif entry and not entry.ended:
            self._ended(entry, report)

    def _ended(self, entry: Entry[int], report: Report) -> None:
        self.interactive.presence.end(entry.key)
        self._ledger.end(entry)
        self._report(report)

    async def _lose_all(self) -> None:
        """End and report the jobs of a keeper that was killed."""
        held = {key: self._ledger.entries[key] for key in self._ledger.running()}
        leftovers = await self._in_thread(self._state.scan)
        lost = []
        for leftover in leftovers:
            if entry := held.pop(leftover.claim.allocation, None):
                if leftover.ended:
                    self._after_epilog(entry, leftover, leftover.ended)
                else:
                    lost.append((entry, leftover))
        await self._lose(lost)

    async def _lose(self, lost: Sequence[tuple[Entry[int], Leftover]]) -> None:
        """End the remaining processes of these allocations, and report them as lost."""
        if not lost:
            return
        ended = await self._in_thread(lambda: self._end_leftovers(leftover for _, leftover in lost))
        log.warning("%d jobs are lost; %d processes of theirs were ended", len(lost), ended)
        for entry, leftover in lost:
            self._after_epilog(entry, leftover, lost_report(entry, leftover, self._clock()))

    def _after_epilog(self, entry: Entry[int], leftover: Leftover, report: Report) -> None:
        """End an allocation that no keeper holds any more, after the epilog that its keeper has not run to its end."""
        if leftover.epilog is None and leftover.ended:
            self._ended(entry, report)
        elif self._group is not None:
            self._group.create_task(self._end_after(entry, leftover, report))

    async def _end_after(self, entry: Entry[int], leftover: Leftover, report: Report) -> None:
        if leftover.epilog is not None:  # processes of a killed keeper may still run
            await self._in_thread(lambda: self._end_leftovers([leftover]))
            report = await self._epilogs.after(leftover, report)
        await self._end(entry, report)

    def _end_leftovers(self, leftovers: Iterable[Leftover]) -> int:
        listed = list(leftovers)
        processes = [leftover.process for leftover in listed if leftover.process]
        allocations = [leftover.claim.allocation for leftover in listed]
        return end_leftovers(str(self._state.root), allocations, processes, self.grace_s)

    async def take(self, orders: Sequence[Order], group: asyncio.TaskGroup) -> list[str]:  # noqa: ARG002 - the protocol's
        """Claim all starts durably, then start and cancel jobs. An allocation that was claimed before is not started.

        Raises:
            OSError: the claims can't be written, or there is no keeper; no job was started.
        """
        cancels = [allocation for order in orders for allocation in order.message.cancels]
        fresh, held = sort_out([job for order in orders for job in order.message.starts], self._ledger)
        made = await self._claim(list(fresh.values()))
        await self._start([fresh[allocation] for allocation in fresh if allocation in made])
        self.cancel(self._name, cancels)
        given = [one for order in orders for one in order.message.orders if self._ledger.is_known(one.allocation)]
        self.carried_out.pass_on(given)
        return list(map(still_held, held))

    async def _claim(self, starts: Sequence[StartJob]) -> set[int]:
        files = self._planner.denial.files_of

        def claim() -> set[int]:  # all in a thread: looking up a job's user may take long
            return self._state.claim([claim_of(one, files(one.device_ids), self._epilog_of(one)) for one in starts])

        return await self._in_thread(claim) if starts else set()

    def _epilog_of(self, start: StartJob) -> EpilogClaim | None:
        with suppress(Refused):  # whose job does not run here
            hooks = self._planner.job_hooks(start)
            if hooks is not None and hooks.epilog is not None:
                return EpilogClaim(program=hooks.epilog, environment=hooks.environment, timeout_s=hooks.timeout_s)
        return None

    async def _start(self, starts: Sequence[StartJob]) -> None:
        """Hand the jobs to the keeper. Between the check that the keeper is up and the last job, nothing is awaited."""
        plans = await self._in_thread(lambda: self._plans(starts)) if starts else []
        await self._until_up(starts)
        failed = []
        for start, plan in zip(starts, plans, strict=True):
            entry = self._ledger.add(start.allocation, start.job, start.device_ids)
            if isinstance(plan, Refused):
                failed.append((entry, refused_report(entry, plan, self._clock())))
                continue
            launch, hooks = plan
            if hooks is not None and not self._can_hook:
                failed.append((entry, unhooked_report(entry, self._clock())))
                continue
            self._link.ask(self._order(start, launch, hooks))
            self._watch(entry)
            self.interactive.add(claim_of(start, []))
        for entry, report in failed:
            await self._end(entry, report)

    async def _until_up(self, starts: Sequence[StartJob]) -> None:
        """Wait for a keeper. If none is up within :data:`UP_S`, give the claims back; they are requested again later.

        Raises:
            OSError: there is no keeper.
        """
        if not await is_set(self._link.up, UP_S):
            await self._in_thread(lambda: self._remove([start.allocation for start in starts]))
            raise OSError(errno.EAGAIN, self._link.waits_for() or "no process holds this node's jobs yet")

    def _plans(self, starts: Sequence[StartJob]) -> list[tuple[Launch, JobHooks | None] | Refused]:
        """How to start these jobs. Without room for a script, their claims are given back, as without room for a claim.

        Raises:
            OSError: there is no room.
        """
        try:
            return [self._plan(start) for start in starts]
        except OSError:
            self._remove([start.allocation for start in starts])
            raise

    def _plan(self, start: StartJob) -> tuple[Launch, JobHooks | None] | Refused:
        try:
            return self._planner.plan(start), self._planner.job_hooks(start)
        except Refused as refusal:
            return refusal

    def _order(self, start: StartJob, launch: Launch, hooks: JobHooks | None) -> KeepJob:
        return KeepJob(
            allocation=start.allocation,
            job=start.job,
            plan=launch,
            time_limit_s=start.request.time_limit_s,
            grace_s=self.grace_s,
            hooks=hooks,
        )

    def cancel(self, node: str, allocations: Sequence[int]) -> None:  # noqa: ARG002 - the protocol's
        """End these allocations."""
        for allocation in allocations:
            entry = self._ledger.entries.get(allocation)
            if entry and entry.terminate:
                entry.terminate("cancel")

    def unknown(self, node: str, allocations: Sequence[int]) -> list[int]:  # noqa: ARG002 - the protocol's
        """Those of these allocations that this node does not know."""
        return [allocation for allocation in allocations if not self._ledger.has_seen(allocation)]

    def known(self, node: str) -> list[int]:  # noqa: ARG002 - the protocol's
        """The allocations that run, or whose end is not recorded yet."""
        return list(self._ledger.entries)

    async def _end(self, entry: Entry[int], report: Report) -> None:
        """Write the end down, and report it. On a full disk it is only reported, and the report waits to be stored."""
        try:
            await self._in_thread(lambda: self._state.write_end(report))
        except OSError as error:
            log.warning("the end of allocation %d cannot be written down: %s", entry.key, error)
        self._ended(entry, report)

    def _report(self, report: Report) -> None:
        self._reporter.add(self._name, report)

    def end_all(self, *, at_once: bool) -> None:
        """End all jobs; ``at_once`` kills them without a grace time."""
        if at_once:
            self.grace_s = 0.0
        for entry in self._ledger.entries.values():
            if entry.terminate:
                entry.terminate("agent_stopped")

    async def all_ended(self) -> None:
        """Return once no job runs."""
        await self._ledger.all_ended()

    async def leave(self) -> None:
        """Leave the jobs to the keeper, which ends with the last of them."""
        await end_tasks(*self._tidying)
        for name in (OUTPUTS_LOOP, PULSE_LOOP, CLIENTS_LOOP):
            self._reporter.loops.drop(name)
        running = self._ledger.running()
        if running:
            jobs = sorted(self._ledger.entries[allocation].job for allocation in running)
            log.warning("%s", left_behind(jobs, self._state.root))
        await self._link.close(keeps_jobs=bool(running))

    def close(self) -> None:
        """Disconnect from the keeper, which stays with its jobs. Wait for the threads, which may remove directories."""
        self._link.drop()
        self._threads.shutdown()

    def running(self, node: str) -> list[int]:
        """Allocations that have not ended."""
        return self._ledger.running() if node == self._name else []

    def acknowledged(self, node: str, reports: Sequence[Report]) -> None:  # noqa: ARG002 - the protocol's
        """The intake has recorded these reports."""
        self._forget(self._ledger.reported(report.allocation for report in reports if report.kind == "ended"))

    def _forget(self, allocations: list[int]) -> None:
        if allocations:
            self._threads.submit(self._remove, allocations)

    def _remove(self, allocations: Sequence[int]) -> None:
        """Remove all that is on disk of these allocations."""
        self._planner.scripts.remove(allocations)
        self._state.remove(allocations)

    def _in_thread(self, action: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, action)
