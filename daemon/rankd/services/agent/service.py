"""The agent: registers its nodes, requests their allocations, runs them, and reports.

The agent starts only what the intake's answer to its own request lists, never what comes on a subject: anyone who may
publish there could start any command. Each start gets a directory before a process is spawned. The directory exists
until the intake has recorded the end, so no allocation starts twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import resource
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.health import answer_health
from rankd.bus.tls_files import TlsFiles
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import RankdError, Unavailable
from rankd.core.metric.figure import Figure, flag
from rankd.core.model.quantity import Amount
from rankd.identity.credentials import source_of
from rankd.services.agent.allocation_request import LOOP as REQUESTS_LOOP
from rankd.services.agent.allocation_request import AllocationRequests
from rankd.services.agent.device_report import DeviceReporter
from rankd.services.agent.device_watch import Machine
from rankd.services.agent.given_device import GivenDevices
from rankd.services.agent.health_check import HealthCheck
from rankd.services.agent.identity import RunAs
from rankd.services.agent.own_credentials import check_private, check_role
from rankd.services.agent.plan import Planner
from rankd.services.agent.real_node import RealNode
from rankd.services.agent.registration import Registration
from rankd.services.agent.renewal import Renewal
from rankd.services.agent.report import Reporter
from rankd.services.agent.runner import Runner
from rankd.services.agent.session_service import Sessions
from rankd.services.agent.simulated_nodes import SimulatedNodes
from rankd.services.agent.vouching import vouching
from rankd.services.keeper.cgroup_layout import own_allowances
from rankd.services.keeper.connection import SILENT
from rankd.services.keeper.orphan import END_S
from rankd.services.keeper.state import AgentState
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.hidden_process import hide
from rankd.services.runtime.life import end_tasks, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.unreplaceable import check_unreplaceable
from rankd.wire.message import LONGEST_CONFINEMENT, NodeHooks, NodeRegistered, NodeRegistration
from rankd.wire.session import AttachWish
from rankd.wire.subject import encode_name

log = logging.getLogger("rankd.agent")

AGENT = "agent"
FILES = 65_536
FLUSH_S = 10.0


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is, and which nodes the agent represents.

    ``renews``: the agent replaces the file ``creds`` before they end. ``name`` defaults to the host's name; a real
    node has the same name. ``simulate`` 0 means a real node, N means the nodes ``<simulate_prefix>1`` … N.
    ``resources`` are those of a node. They default to what this machine allows this process, or to
    ``simulate_resources``. ``limited``: jobs are held to the memory and cores that they asked for, if the host supports
    that. ``hooked``: it runs the programs that the site's configuration names. ``drain_on_stop_s``: None leaves running
    jobs to the keeper when the agent stops. With a number, the agent waits for them for this many seconds, then ends
    them. ``login_socket``: where users of this machine ask as themselves; None: nowhere. ``machine``: where a real
    node's cards are looked for; None: they are not. ``devices``: those of each node that are given; then its cards are
    not looked for.
    """

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    renews: bool = False
    state_dir: Path
    name: str = msgspec.field(default_factory=platform.node)
    output_dir: Path | None = None
    partition: str = "default"
    resources: dict[str, Amount] | None = None
    run_as: RunAs = RunAs()
    limited: bool = True
    hooked: bool = True
    drain_on_stop_s: float | None = None
    login_socket: Path | None = None
    machine: Machine | None = None
    labels: dict[str, str] = {}
    devices: GivenDevices = GivenDevices()
    simulate: int = 0
    simulate_prefix: str = "sim-"
    simulate_resources: dict[str, Amount] = msgspec.field(default_factory=lambda: {"vcore": 8, "memory": "32Gi"})

    @property
    def nodes(self) -> list[str]:
        """The nodes' names."""
        if not self.simulate:
            return [self.name]
        return [f"{self.simulate_prefix}{number}" for number in range(1, self.simulate + 1)]


async def run(
    options: AgentOptions,
    stop: asyncio.Event,
    hurry: asyncio.Event | None = None,
    clock: Clock = time.time,
    exported: Exported | None = None,
) -> None:
    """Serve until ``stop`` is set. Then leave running jobs to the keeper, or end and report them (``drain_on_stop_s``).

    ``hurry``: running jobs are killed at once, both those that are waited for and those in their grace time.

    Raises:
        Refused: the node's name or a directory can't be used; the credentials are another's, or are refused.
    """
    for node in options.nodes:
        check_node_name(node)
        options.devices.of(node)
    if options.creds is not None and not options.simulate:
        check_private(options.creds)
    async with AsyncExitStack() as stack:
        credentials = source_of(options.creds)
        name = f"agent-{options.name}"
        bus = Bus(options.nats, name, connect_timeout_s=None, credentials=credentials, tls=options.tls)
        if await unless(stop, stack.enter_async_context(bus)) is None:
            return
        if options.creds is not None:
            check_role(bus.role, bus.user or "", options.nodes, options.creds)
        reporter = Reporter(bus)
        runner = stack.enter_context(_runner(options, reporter, clock))
        reporter.on_acknowledged = runner.acknowledged
        reporter.instance = runner.instance
        await stack.enter_async_context(vouching(options.login_socket, bus, options.name))
        async with asyncio.TaskGroup() as group:
            agent = Agent(options, bus, runner, reporter, group, clock)
            agent.export(exported or Exported(AGENT))
            await agent.serve(stop, hurry or asyncio.Event(), clock)


@contextmanager
def _runner(options: AgentOptions, reporter: Reporter, clock: Clock) -> Iterator[Runner]:
    if options.simulate:
        yield SimulatedNodes(reporter, clock)
        return
    options.run_as.check()
    hide()
    _raise_file_limit()
    with AgentState(options.state_dir) as state:
        if options.run_as.gives_users_rights:
            check_unreplaceable(state.root, "state")
        output = options.output_dir or state.root / "output"
        planner = Planner(state.root, output, options.run_as, limited=options.limited, instance=state.instance)
        planner.offer(options.devices.of(options.name))
        node = RealNode(options.name, state, planner, reporter, clock, None if options.devices else options.machine)
        node.interactive.can_hear = lambda: reporter.is_connected
        log.info("%s", options.run_as.statement())
        try:
            yield node
        finally:
            node.close()


def _raise_file_limit() -> None:
    """Raise the limit of open files: a running job costs a descriptor, and the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Agent:
    """The service's loops, with a runner."""

    def __init__(
        self,
        options: AgentOptions,
        bus: Bus,
        runner: Runner,
        reporter: Reporter,
        group: asyncio.TaskGroup,
        clock: Clock = time.time,
    ) -> None:
        self._options = options
        self._bus = bus
        self._runner = runner
        self._reporter = reporter
        self._group = group
        self._health = HealthCheck(options.name, lambda: runner.hooks, clock, options.state_dir)
        self._registration = Registration(
            bus,
            options.nodes,
            runner.instance,
            self._describe,
            self._on_answer,
            self._on_registered,
            lambda: runner.unable,
            lambda: self._health.failure,
        )
        self._requests = AllocationRequests(bus, options.name, options.nodes, runner, self._registration.again)
        runner.carried_out.tell = lambda node: self._requests.wake([node])

    def export(self, exported: Exported) -> None:
        """Export its figures. Agents are not asked over the bus, where each is in an account of its own."""
        exported.bus(self._bus)
        exported.add(self._figures)
        if not self._options.simulate:
            exported.disk("output", str(self._options.output_dir or self._options.state_dir))

    def _figures(self) -> list[Figure]:
        nodes = self._options.nodes
        return [
            Figure("rankd_agent_nodes", len(nodes)),
            Figure("rankd_agent_running_allocations", sum(len(self._runner.running(node)) for node in nodes)),
            Figure("rankd_agent_unrecorded_reports", self._reporter.unacknowledged),
            flag("rankd_agent_registered", self._registration.done.is_set()),
        ]

    async def serve(self, stop: asyncio.Event, hurry: asyncio.Event, clock: Clock) -> None:
        """Run the loops until ``stop``. Then stop requesting allocations, leave or end the jobs, flush the reports.

        Raises:
            Refused: ``not_authorized``: the broker does not accept the credentials any more. The jobs run on.
        """
        await self._runner.recover(self._group)
        await self._find_devices()
        await answer_health(self._bus, f"agent-{encode_name(self._options.name)}", self._probe)
        supervising = self._group.create_task(self._bus.supervise())
        serving = self._group.create_task(self._serve_sessions())
        belonging = [self._group.create_task(self._bus.until_refused())]
        if self._options.renews and self._options.creds is not None:
            belonging.append(self._group.create_task(Renewal(self._bus, self._options.creds, clock).run()))
        reporting = self._group.create_task(self._reporter.run())
        registering = self._group.create_task(self._registration.run())
        requesting = self._group.create_task(self._request_allocations())
        monitoring = [self._group.create_task(task) for task in self._monitoring()]
        await stop.wait()
        async with self._requests.busy:
            await end_tasks(requesting)
        self._bus.loops.drop(REQUESTS_LOOP)
        await end_tasks(registering)
        away = self._group.create_task(self._registration.stay_away())
        if self._options.drain_on_stop_s is not None:
            await self._drain(self._options.drain_on_stop_s, hurry)
        await self._runner.leave()
        await self._flush()
        await end_tasks(reporting, away, supervising, serving, *belonging)
        await end_tasks(*monitoring)
        if self._runner.monitor:
            await self._runner.monitor.close()
        await self._registration.leave()

    async def _serve_sessions(self) -> None:
        """Let users read what their jobs write, on a connection of its own."""
        if (around := self._runner.around) is None:
            return
        options, name = self._options, f"agent-{self._options.name}-sessions"
        credentials = source_of(options.creds)
        bus = Bus(options.nats, name, connect_timeout_s=None, credentials=credentials, tls=options.tls)
        sessions = Sessions(bus, options.nodes, around)
        if around.attach is not None:
            sessions.factories[AttachWish] = around.attach
        try:
            await sessions.run()
        except RankdError as error:  # jobs run without it
            log.error("users can't read the output of jobs of this node: %s", error.message)  # noqa: TRY400

    async def _find_devices(self) -> None:
        """Find this machine's cards, before they are registered, and say whether jobs are kept apart on them."""
        if self._runner.monitor:
            self._runner.monitor.on_list = self._registration.again
            await self._runner.monitor.begin()
        if self._describe(self._options.nodes[0]).devices and (said := self._runner.confinement):
            log.log(logging.WARNING if " NOT " in said else logging.INFO, "%s", said)

    def _monitoring(self) -> list[Coroutine[Any, Any, None]]:
        """The loops that watch the node and its cards, and report what they see."""
        checking = [] if self._options.simulate else [self._health.run(self._bus.loops)]
        if self._runner.monitor is None:
            return checking
        reporter = DeviceReporter(self._bus, self._options.name, self._runner.instance, self._runner.monitor)
        return [*checking, self._runner.monitor.run(self._bus.loops), reporter.run(self._registration.done)]

    async def _drain(self, patience_s: float, hurry: asyncio.Event) -> None:
        """Wait for the jobs, then end them. ``hurry`` ends the wait, and then also the grace time.

        If the keeper is stopped and so does not end its jobs, they are left to it. It ends them once it continues.
        """
        ended, hurried = (self._group.create_task(wait) for wait in (self._runner.all_ended(), hurry.wait()))
        if patience_s:
            log.info("waiting for running jobs, for up to %g s", patience_s)
            await asyncio.wait((ended, hurried), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        self._runner.end_all(at_once=hurried.done())
        timeout_s = self._runner.grace_s + END_S
        await asyncio.wait((ended, hurried), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            self._runner.end_all(at_once=True)
            await asyncio.wait((ended,), timeout=END_S)
        if not ended.done():
            message = "the keeper has not ended %d jobs: it is stopped or hangs; its jobs are left to it"
            log.error(message, sum(len(self._runner.running(node)) for node in self._options.nodes))
        await end_tasks(ended, hurried)

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_S):
                await self._reporter.flushed()
        except TimeoutError:
            log.warning("%d reports are left for the next start of this agent", self._reporter.unacknowledged)

    async def _request_allocations(self) -> None:
        """Ask for allocations once the intake knows this agent."""
        await self._requests.listen()
        await self._registration.done.wait()
        await self._requests.run(self._group)

    def _describe(self, node: str) -> NodeRegistration:
        default = self._options.simulate_resources if self._options.simulate else own_resources()
        devices = [device.registered() for device in self._options.devices.of(node)]
        if self._runner.monitor:
            devices = self._runner.monitor.devices()
        return NodeRegistration(
            partition=self._options.partition,
            resources=self._options.resources or default,
            labels=self._options.labels,
            agent=self._options.name,
            running=self._runner.running(node),
            devices=devices,
            confinement=self._runner.confinement[:LONGEST_CONFINEMENT] if devices else "",
        )

    def _on_answer(self, answer: NodeRegistered) -> None:
        self._runner.grace_s = answer.grace_s
        self._runner.max_processes = answer.max_processes
        self._runner.outputs_s = answer.outputs_s
        self._runner.orphan_s = answer.orphan_s
        self._runner.use_cluster(answer.cluster)
        if self._options.hooked:
            self._runner.hooks = answer.hooks or NodeHooks()
        self._requests.wake(answer.waiting)

    def _on_registered(self, node: str, to_end: Sequence[int]) -> None:
        self._runner.cancel(node, to_end)
        if self._runner.monitor:
            self._runner.monitor.tell_again()
        self._requests.compare([node])

    async def _probe(self) -> str:
        if not self._bus.client.is_connected:
            raise Unavailable("bus_unavailable", f"the broker at {self._bus.url} does not answer")
        if (refusal := self._registration.refusal) is not None:
            raise Unavailable(refusal.code, refusal.message)
        if not self._registration.done.is_set():
            raise Unavailable("not_registered", "the intake has not answered yet; is rankd running?")
        if unable := self._runner.unable:
            raise Unavailable(SILENT, f"{unable}; continue it (kill -CONT), or kill it: then its jobs are queued again")
        return f"{len(self._options.nodes)} nodes, {self._reporter.unacknowledged} reports waiting"


def own_resources() -> dict[str, Amount]:
    """What this machine allows this process: its cores and its memory, as far as its control groups permit.

    Less than a core is offered as one core, so that a job that asks for one can run. The quota still limits it.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    vcore = 1000 * len(os.sched_getaffinity(0))
    allowed_vcore, allowed_memory = own_allowances()
    vcore = max(1000, min(vcore, allowed_vcore or vcore))
    return {
        "vcore": vcore // 1000 if vcore % 1000 == 0 else f"{vcore}m",
        "memory": min(memory, allowed_memory or memory),
    }
