"""Intake: handles requests of users and nodes, and agents' reports. Everything is durable before it is answered.

It also publishes events, writes checkpoints of the write-ahead log, and deletes old records.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

import rankd
from rankd.bus.connection import STREAM_BYTES, Bus
from rankd.bus.endpoint import Endpoints, IdempotentVerb, Reply, Verb
from rankd.bus.health import answer_health, own_health
from rankd.bus.stream import ensure_streams, until_done
from rankd.bus.stream_watch import StreamWatch
from rankd.bus.tls_files import TlsFiles
from rankd.config.configuration import Configuration
from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.runnable_user import LocalRights
from rankd.core.admission.submitter import Submitter
from rankd.core.change.retry import Again
from rankd.core.errors import RankdError, Unavailable
from rankd.core.model.access import AccessList
from rankd.core.model.node import Node, NodeState
from rankd.identity.credentials import source_of
from rankd.services.intake.attach_verb import attach_verb
from rankd.services.intake.checkpoint_loop import run_checkpoints
from rankd.services.intake.class_verbs import class_verbs
from rankd.services.intake.configuration_keeper import ConfigurationKeeper, find, find_recorded, start_with
from rankd.services.intake.dead_letter_verbs import DeadLetterVerbs
from rankd.services.intake.delivery import Deliveries
from rankd.services.intake.device_reports import DeviceReports
from rankd.services.intake.diag_verb import diag_verb
from rankd.services.intake.durable_submission import EnqueuedSubmissions
from rankd.services.intake.entry import Entry
from rankd.services.intake.export import IntakeCounts, export
from rankd.services.intake.host_groups import HostGroupsOfUsers
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.job_verbs import JobVerbs
from rankd.services.intake.look_verbs import LookVerbs
from rankd.services.intake.new_jobs import NewJobs
from rankd.services.intake.node_verbs import node_verbs
from rankd.services.intake.node_watch import NodeWatch
from rankd.services.intake.relay import Relay
from rankd.services.intake.reports import Reports
from rankd.services.intake.rests import Rests
from rankd.services.intake.retention_sweep import run_sweeps
from rankd.services.intake.retired_stream import recorder, take_over
from rankd.services.intake.retry_verb import retry_verb
from rankd.services.intake.runnable_users import RunnableUsers
from rankd.services.intake.session_verbs import SessionVerbs
from rankd.services.intake.shown_estimate import ShownEstimates
from rankd.services.intake.stream_verbs import StreamVerbs
from rankd.services.intake.submission import Submission, read_again, read_beside_others, with_doubt
from rankd.services.intake.trial import Trial
from rankd.services.intake.user_database import UserDatabase
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.input_follower import InputFollower
from rankd.services.runtime.life import Patience, announce, probe, run_until, stay_alive, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.standby import take_role
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.last_id import last_id
from rankd.store.engine.url import open_database
from rankd.store.record.adapter import InForce
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.catalog import Catalog, admission_tables, forget_idle_queues, read_catalog
from rankd.store.record.new_user_group import save_user_groups
from rankd.store.record.node import read_nodes
from rankd.store.record.user_group import recorded_groups
from rankd.store.schema.migration import shipped

log = logging.getLogger("rankd.intake")

ROLE = "intake"
LONG_ROUND_S = 60.0
SWITCH_S = 0.0005
"""The interpreter's switch interval: the time for which a thread of one user can hold up the answers to others."""


class IntakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker, the database and the configuration are. ``local``: where jobs run as their users."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES
    local: LocalRights | None = None


async def run(
    options: IntakeOptions, stop: asyncio.Event, hangup: asyncio.Event | None = None, clock: Clock = time.time,
    exported: Exported | None = None,
) -> None:  # fmt: skip
    """Serve until ``stop``; read the configuration again at every ``hangup``."""
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        intake = await unless(stop, _start(options, stack, clock))
        if intake is not None:
            await export(exported or Exported(ROLE), intake, stack, clock)
            await intake.serve(stop, hangup or asyncio.Event())


async def _start(options: IntakeOptions, stack: AsyncExitStack, clock: Clock) -> Intake:
    database = await stack.enter_async_context(open_database(options.db, clock=clock))
    is_given = options.config.is_dir() and options.config != shipped("config")
    found = (None if is_given or not database.has_standbys else await find_recorded(database)) or await find(
        database, options.config
    )
    bus = await stack.enter_async_context(
        Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    )
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    await take_role(database, ROLE, clock)
    if database.has_followed(ROLE):
        found = await find_recorded(database) or found
    await database.write(lambda c: forget_idle_queues(c, clock()), role=ROLE)
    taken = await start_with(database, ROLE, found, clock())
    bus.stream_replicas = found.configuration.settings.nats.replicas
    await ensure_streams(bus)
    limit = found.configuration.settings.node.max_requeues
    await until_done(bus, partial(take_over, bus, recorder(database, ROLE, limit, clock)))
    intake = Intake(found.configuration, taken.catalog, database, bus, clock)
    intake.runnable.local = options.local
    if options.creds is not None:
        intake.entry.gateways.use(options.creds.parent)
    intake.keeper.number = taken.number
    if found.refused is not None:
        intake.keeper.note(found.refused)
    await intake.inputs.run_once()
    await intake.limits.start()
    intake.host_groups.start(await database.read(lambda c: recorded_groups(c.exec_driver_sql)))
    intake.nodes.start(await database.read(lambda c: all_nodes(c.connection)))
    return intake


class Intake:
    """The state of one intake: its names and ids, and its group commit."""

    def __init__(
        self, configuration: Configuration, catalog: Catalog, database: Database, bus: Bus, clock: Clock
    ) -> None:
        self.configuration = configuration
        self.users = UserDatabase()
        self.catalog, self._known = catalog, catalog.size
        self._nodes: tuple[Node, ...] | None = None
        self._node_event = -1
        self._node_types: frozenset[str] = frozenset()
        self.host_groups = HostGroupsOfUsers(self.users, self._keep_groups, self._forget_admitted)
        self._admission = Admission(self.host_groups.use(configuration, admission_tables(configuration, catalog)))
        self.database, self.bus, self._clock = database, bus, clock
        self._probe = partial(probe, database, bus)
        self.relay = Relay(database, bus, ROLE, clock, lambda: self.configuration.settings.privacy.jobs)
        self.group = GroupCommit(database, ROLE, self._after_commit, self._after_rollback)
        self.streams, self.counts = StreamWatch(bus), IntakeCounts()
        self.reports = Reports(database.url)
        self.estimates = ShownEstimates(database, bus, ROLE, clock)
        self.rests = Rests(clock)
        self.entry = Entry(lambda: self.configuration, self.host_groups, self.rests)
        self.runnable = RunnableUsers(lambda: self.configuration.settings.admission.submitters, self.users)
        self.limits = JobLimits(lambda: self.configuration.settings.admission, database)
        self._new_jobs = NewJobs(self.group, self.limits, self, clock)
        self.jobs = JobVerbs(database, self.group, self, self.limits, self.rests, clock)
        self.nodes = NodeWatch(configuration.settings, database, bus, self.group, clock)
        self.nodes.on_types = self.learn_types
        self.trial = Trial(database, self.runnable, self.limits, lambda: self.nodes.offered, clock)
        self.deliveries = Deliveries(lambda: self.configuration.settings.node, database, bus, self.group, clock)
        of_devices, foreign = (lambda: self.configuration.settings.devices), self.deliveries.foreign
        self.devices = DeviceReports(of_devices, self.group, foreign, self.nodes.offered, clock)
        self._looks = LookVerbs(database, self.rests, lambda: self.bus.client.max_payload, self.estimates)
        self.sessions = SessionVerbs(self._looks.single, bus, lambda: self.configuration.settings, clock)
        self.inputs = InputFollower(configuration, database, self._use_inputs)
        self.keeper = ConfigurationKeeper(
            Path(configuration.directory), database, self.group, self._use_configuration, clock
        )

    @property
    def tables(self) -> AdmissionTables:
        """The tables that submissions are checked against at present."""
        return self._admission.tables

    async def serve(self, stop: asyncio.Event, hangup: asyncio.Event) -> None:
        """Answer requests and record reports until ``stop``; reload at every ``hangup``."""
        requests = asyncio.TaskGroup()
        rate = lambda: self.configuration.settings.admission.max_requests_per_s  # noqa: E731 - read at each request
        endpoints = Endpoints(self.bus, requests, rankd.__version__, rate, self.entry.enter, self.counts.answered)

        async def drain() -> None:
            self.jobs.stop()
            self.reports.close()
            await endpoints.drain()

        try:
            async with requests:
                of_nodes = self.nodes.verbs() | self.deliveries.verbs() | self.devices.verbs()
                await endpoints.serve(self._verbs(), of_nodes | self.sessions.node_verbs())
                await answer_health(self.bus, ROLE, self._probe)
                self.database.note_ready(ROLE)
                log.info("ready")
                await run_until(
                    stop,
                    self.bus.supervise(),
                    stay_alive(self.database, ROLE, self.bus.loops),
                    self.bus.loops.run("commits", LONG_ROUND_S, self.group.run),
                    self.deliveries.run(),
                    EnqueuedSubmissions(self.bus, ROLE, self.group, self.take, self._clock).run(),
                    self.relay.run(),
                    self.streams.run(),
                    self.estimates.run(),
                    run_checkpoints(self.database, self.bus.loops),
                    self._sweeps(),
                    self.nodes.run(),
                    self.inputs.run(self.bus.loops),
                    self.keeper.on_hangup(hangup, self.bus.loops),
                    drain=drain,
                )
        finally:
            self.users.close()
            await endpoints.turn_away()

    def _verbs(self) -> list[Verb | IdempotentVerb]:
        classes = class_verbs(self.group, lambda: self.tables.classes, lambda: self.catalog.access, self._use_classes)
        notifications = lambda: self.configuration.settings.notifications  # noqa: E731 - read at each request
        letters = DeadLetterVerbs(self.database, self.group, self.take, self._looks, notifications, self._clock).verbs()
        return [
            IdempotentVerb("job.submit", self.submit),
            Verb("job.test", self.test),
            retry_verb(self._looks.single, self.take_again),
            *self.jobs.verbs(),
            *self.sessions.verbs(),
            attach_verb(self.sessions),
            *self._looks.verbs(),
            *self.reports.verbs(),
            diag_verb(
                self._looks.single,
                self.bus,
                lambda: own_health(self.bus, ROLE, self._probe),
                self.keeper.diag,
                lambda: self.deliveries.foreign.count,
                lambda: self.streams.found,
                self._clock,
            ),
            self.keeper.verb(),
            *classes,
            *letters,
            *node_verbs(self.group, self.nodes.offered, self._clock),
            *StreamVerbs(self.database, self.bus, self.relay, self.streams, ROLE, self._clock).verbs(),
        ]

    async def _after_commit(self) -> None:
        self.relay.wake.set()
        await announce(self.bus, ROLE)

    async def _after_rollback(self) -> None:
        """Load the catalog again: ids that the failed transaction gave to new associations do not exist."""
        patience, fresh = Patience("commits", log), None
        while fresh is None:
            try:
                fresh = await self.database.read(read_catalog)
            except Unavailable as error:
                await patience.wait(error)
        self._use(msgspec.structs.replace(fresh, new_user_shares=self.catalog.new_user_shares))

    async def _use_inputs(self, found: InForce) -> None:
        """Use other accounts, QoS or groups from adapters."""
        fresh = await self.database.read(read_catalog)
        self.configuration = found.configuration
        self._use(msgspec.structs.replace(fresh, new_user_shares=self.catalog.new_user_shares))

    async def _use_configuration(self, stated: Configuration, catalog: Catalog) -> None:
        """Use another configuration from the next request on."""
        self.nodes.use(stated.settings)
        self.bus.stream_replicas = stated.settings.nats.replicas
        self._nodes, self._node_event, self.catalog = None, -1, catalog
        await self.inputs.restate(stated)

    async def _use_classes(self, classes: ClassTable, access: Mapping[str, AccessList]) -> None:
        self.catalog = msgspec.structs.replace(self.catalog, classes=classes.listed(), access=access)
        self._use(self.catalog)

    def learn(self) -> None:
        """Load the names that their first use has added to the catalog."""
        if self.catalog.size != self._known:
            self._use(self.catalog)

    def learn_types(self, types: Iterable[str]) -> None:
        """Let jobs request the resource types that a node offers."""
        if new := frozenset(types) - self._node_types:
            self._node_types |= new
            self._use(self.catalog)

    def _use(self, catalog: Catalog) -> None:
        self.catalog, self._known = catalog, catalog.size
        tables = admission_tables(self.configuration, catalog, self._node_types)
        tables = self.host_groups.use(self.configuration, tables)
        self._admission = Admission(msgspec.structs.replace(tables, nodes=self._nodes))

    def _forget_admitted(self) -> None:
        """Resolve the next jobs again: their users are in other groups now."""
        self._admission = Admission(self._admission.tables)

    async def _keep_groups(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        now = self._clock()
        await self.group.do(lambda c: save_user_groups(c, groups, now), quiet=True)

    async def see_nodes(self) -> None:
        """Load the present nodes, if jobs that fit no node are refused."""
        if not self.configuration.settings.admission.refuse_unfit:
            return
        newest = await self.database.read(lambda c: last_id(c, "node_events"))
        if newest != self._node_event:
            nodes, _ = await self.database.read(read_nodes)
            self._node_event = newest
            self._nodes = tuple(node for node in nodes if node.state in (NodeState.UP, NodeState.DRAINING))
            self._use(self.catalog)

    async def submit(self, submitter: Submitter, payload: bytes, message_id: str | None = None) -> Reply:
        """``job.submit``: answers once the jobs are durable."""
        return with_doubt(*await self.take(submitter, payload, message_id), self.nodes.offered)

    async def test(self, submitter: Submitter, payload: bytes) -> Reply:
        """``job.test``: whether the job would be accepted now."""
        await self.see_nodes()
        submission = await self._read(payload, submitter, None)
        return await self.trial.judge(submission, submitter, self._with_eyes(submitter))

    async def take(
        self, submitter: Submitter, payload: bytes, message_id: str | None
    ) -> tuple[Submission, list[int], RankdError | None]:
        """Read, admit and store a message; returns the submission, the ids, and the error if some jobs are missing."""
        with self.counts.counting() as taken:
            await self.see_nodes()
            submission = await self._read(payload, submitter, message_id)
            return taken(*await self._accept(submission, submitter, self._with_eyes(submitter)))

    async def take_again(self, again: Again, owner: str, asker: Submitter) -> Reply:
        """Admit an ended job of this owner again, and store it as a new one."""
        await self.see_nodes()
        await self.host_groups.need([owner])
        by_owner = self._with_eyes(Submitter(owner, privileged=False))
        read = read_again(again, by_owner, self._admission)
        return with_doubt(*await self._accept(read, asker, by_owner), self.nodes.offered)

    def _with_eyes(self, user: Submitter) -> Submitter:
        """This user with what the configuration in force lets the user see: the subject of a stream does not say it."""
        return user._replace(sees=self.configuration.settings.privacy.jobs)

    async def _accept(
        self, submission: Submission, submitter: Submitter, looker: Submitter
    ) -> tuple[Submission, list[int], RankdError | None]:
        """Check what was admitted against the records and the limits, and store what is left.

        ``looker``: by whose rights the jobs in the dependencies are looked up.
        """
        submission = await self.trial.allowed(submission, submitter, looker)
        if submission.accepted:
            submission = await self.limits.within(submission)
        if not submission.accepted:
            return submission, [], None
        return submission, *await self._new_jobs.store(submission, submitter)

    async def _read(self, payload: bytes, submitter: Submitter, message_id: str | None) -> Submission:
        """Read and admit a message, with the groups of the jobs' users."""
        await self.host_groups.need([submitter.user])
        submission = await read_beside_others(payload, submitter, self._admission, self.rests, message_id)
        if submitter.privileged and await self.host_groups.need({job.user for job in submission.accepted}):
            submission = await read_beside_others(payload, submitter, self._admission, self.rests, message_id)
        return submission

    async def _sweeps(self) -> None:
        beat = self.bus.loops.add("old records", LONG_ROUND_S).beat
        await run_sweeps(self.database, lambda: self.configuration.settings.retention, ROLE, beat, self._clock)
