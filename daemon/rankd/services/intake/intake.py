"""The state of one intake: its names and ids, its numbers, and how it takes submissions by them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.endpoint import Reply
from rankd.bus.stream_watch import StreamWatch
from rankd.config.configuration import Configuration
from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.submitter import Submitter
from rankd.core.change.retry import Again
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.core.model.access import AccessList
from rankd.core.model.node import Node, NodeState
from rankd.services.intake.beside import Beside
from rankd.services.intake.configuration_keeper import ConfigurationKeeper, Found, Taken, Unusable
from rankd.services.intake.delivery import Deliveries
from rankd.services.intake.device_reports import DeviceReports
from rankd.services.intake.entry import Entry
from rankd.services.intake.export import IntakeCounts
from rankd.services.intake.host_groups import HostGroupsOfUsers
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.job_verbs import JobVerbs
from rankd.services.intake.look_verbs import LookVerbs
from rankd.services.intake.new_jobs import NewJobs
from rankd.services.intake.node_watch import NodeWatch
from rankd.services.intake.relay import Relay
from rankd.services.intake.reports import Reports
from rankd.services.intake.rests import Rests
from rankd.services.intake.runnable_users import RunnableUsers
from rankd.services.intake.session_verbs import SessionVerbs
from rankd.services.intake.shown_estimate import ShownEstimates
from rankd.services.intake.submission import Submission, read_again, read_beside_others, with_doubt
from rankd.services.intake.trial import Trial
from rankd.services.intake.user_database import UserDatabase
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.input_follower import InputFollower
from rankd.services.runtime.life import Patience, announce, probe
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import TRIES, GroupCommit, News, Outdated
from rankd.store.engine.last_id import last_id
from rankd.store.feed.new_pending import newest
from rankd.store.record.adapter import InForce
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.catalog import Catalog, admission_tables, read_catalog, with_shares
from rankd.store.record.new_user_group import save_user_groups
from rankd.store.record.node import read_nodes
from rankd.store.record.user_group import recorded_groups

log = logging.getLogger("rankd.intake")

ROLE = "intake"
LONG_ROUND_S = 60.0
FOLLOW_EVERY_S = 1.0
BESIDE = "intake-beside"
"""As whom an intake without the role announces its commits: they wake the relay of the one that has it."""

T = TypeVar("T")


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
        self._nodes_seen = -1
        self._loading, self._starting = asyncio.Lock(), asyncio.Lock()
        self.host_groups = HostGroupsOfUsers(self.users, self._keep_groups, self._forget_admitted)
        self._admission = Admission(self.host_groups.use(configuration, admission_tables(configuration, catalog)))
        self.database, self.bus, self.clock = database, bus, clock
        self.relay = Relay(database, bus, ROLE, clock, lambda: self.configuration.settings.privacy.jobs)
        self.limits = JobLimits(lambda: self.configuration.settings.admission, database)
        self.beside = Beside(self.limits)
        self.is_beside = database.has_standbys
        watch = self.beside if self.is_beside else None
        self.group = GroupCommit(database, None, self._after_commit, self._after_rollback, watch)
        self.streams, self.counts = StreamWatch(bus), IntakeCounts()
        self.reports = Reports(database.url)
        self.estimates = ShownEstimates(database, bus, lambda: self.group.role, clock)
        self.rests = Rests(clock)
        self.entry = Entry(self._usable, self.host_groups, self.rests)
        self.runnable = RunnableUsers(lambda: self.configuration.settings.admission.submitters, self.users)
        self._new_jobs = NewJobs(self.group, self.limits, self, clock)
        self.jobs = JobVerbs(database, self.group, self, self.limits, self.rests, clock)
        self.nodes = NodeWatch(configuration.settings, database, bus, self.group, clock)
        self.nodes.on_types = self.learn_types
        self.trial = Trial(database, self.runnable, self.limits, lambda: self.nodes.offered, clock)
        self.deliveries = Deliveries(lambda: self.configuration.settings.node, database, bus, self.group, clock)
        of_devices, foreign = (lambda: self.configuration.settings.devices), self.deliveries.foreign
        self.devices = DeviceReports(of_devices, self.group, foreign, self.nodes.offered, clock)
        self.looks = LookVerbs(
            database, self.rests, lambda: self.bus.client.max_payload, self.estimates, self.entry.gateways.has_accounts
        )
        self.sessions = SessionVerbs(self.looks.single, bus, lambda: self.configuration.settings, clock)
        self.inputs = InputFollower(configuration, database, self._use_inputs)
        self.keeper = ConfigurationKeeper(
            Path(configuration.directory), database, self.group, self._use_configuration, clock
        )

    @property
    def tables(self) -> AdmissionTables:
        """The tables that submissions are checked against at present."""
        return self._admission.tables

    def _usable(self) -> Configuration:
        """The configuration in force. If it can't be used here, requests are refused: rights may have changed."""
        if self.keeper.unusable is not None:
            raise self.keeper.unusable
        return self.configuration

    async def probe(self) -> str:
        """See :func:`.life.probe`. An intake that can't use the configuration in force is not ready."""
        self._usable()
        return await probe(self.database, self.bus)

    async def prepare(self, version: int) -> None:
        """Read what requests are answered with. What others write from now on is counted besides.

        ``version``: of the catalog, read before the configuration and the catalog were.
        """
        self.beside.known = (await self.database.read(newest))._replace(version=version)
        await self.inputs.run_once()
        await self.limits.start()
        self.host_groups.start(await self.database.read(lambda c: recorded_groups(c.exec_driver_sql)))
        self._nodes_seen = await self.database.read(lambda c: last_id(c, "node_events"))
        self.nodes.start(await self.database.read(lambda c: all_nodes(c.connection)))
        if self.is_beside:
            self.limits.look_first(self.look)

    async def take_charge(self, found: Found, taken: Taken) -> None:
        """Use the configuration with which this intake begins to hold the role."""
        self.keeper.number = taken.number
        await self._use_configuration(found.configuration, taken.catalog)
        self.nodes.begin()
        self.nodes.start(await self.database.read(lambda c: all_nodes(c.connection)))

    def hear(self, is_listening: bool) -> None:
        """Whether nodes can reach this process; see :class:`.offer.Offer`."""
        self.nodes.hear(is_listening)
        self.deliveries.hear(is_listening)

    async def _after_commit(self, news: News) -> None:
        self.relay.wake.set()
        await announce(self.bus, self.group.role or BESIDE, only_new_jobs=news is News.OF_NEW_JOBS)

    async def _after_rollback(self) -> None:
        """Load the catalog again: ids that the failed transaction gave to new associations do not exist."""
        patience, is_loaded = Patience("commits", log), False
        while not is_loaded:
            try:
                await self.load()
                is_loaded = True
            except Unusable:
                return  # nothing can be admitted; follow() looks whether that has changed
            except Unavailable as error:
                await patience.wait(error)

    async def load(self, seen: int | None = None) -> None:
        """Load the catalog, and the configuration if another intake has recorded a new one.

        The version is read first: what changes meanwhile is found by the next transaction. ``seen``: the version for
        which it is loaded. Many may ask at once, and what one of them has loaded is not loaded again.
        """
        async with self._loading:
            if seen is not None and seen == self.beside.known.version:
                return
            version = (await self.database.read(newest)).version
            if seen is not None and version == self.beside.known.version:
                return
            if self.is_beside:
                await self._load_configuration()
            await self._load_catalog(self.configuration)
            self.beside.adopt(version)

    async def _load_configuration(self) -> None:
        """Use the configuration that is recorded, and the inputs of adapters."""
        if (found := await self.keeper.find_newer()) is not None:
            await self._use_configuration(found.configuration, with_shares(self.catalog, found.configuration))
        else:
            await self.inputs.run_once()

    async def _load_catalog(self, configuration: Configuration) -> None:
        """Read again if a newer catalog was loaded meanwhile."""
        before, fresh = self.beside.known.version, await self.database.read(read_catalog)
        while before != self.beside.known.version:
            before, fresh = self.beside.known.version, await self.database.read(read_catalog)
        self.configuration = configuration
        self._use(msgspec.structs.replace(fresh, new_user_shares=self.catalog.new_user_shares))

    async def catch_up(self) -> bool:
        """Load what other intakes have changed, if they have; returns whether they had."""
        if not self.is_beside:
            return False
        changes, nodes = self.beside.changes, self._nodes_seen
        version, event = await self.database.read(lambda c: (newest(c).version, last_id(c, "node_events")))
        if version != self.beside.known.version:
            await self.load(version)
        if event != self._nodes_seen:
            await self._load_nodes()
        return (changes, nodes) != (self.beside.changes, self._nodes_seen)

    async def _load_nodes(self) -> None:
        """Read the nodes, unless another request has done so meanwhile."""
        async with self._starting:
            event = await self.database.read(lambda c: last_id(c, "node_events"))
            if event != self._nodes_seen:
                self.nodes.start(await self.database.read(lambda c: all_nodes(c.connection)))
                self._nodes_seen = event

    async def follow(self) -> None:
        """Look once a second what others have written, so that each transaction sees little that is new."""
        loop, patience = self.bus.loops.add("changes of other intakes", LONG_ROUND_S), Patience("changes", log)
        while True:
            loop.beat()
            try:
                await self.look()
                await self.catch_up()
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.over()
                await asyncio.sleep(FOLLOW_EVERY_S)

    async def look(self) -> None:
        """Count what others have written."""
        await self.group.do(lambda _: None, news=News.NOBODY)

    @property
    def changes(self) -> int | None:
        """See :class:`.new_jobs.Names`."""
        return self.beside.changes if self.is_beside else None

    async def _use_inputs(self, found: InForce) -> None:
        """Use other accounts, QoS or groups from adapters."""
        await self._load_catalog(found.configuration)

    async def _use_configuration(self, stated: Configuration, catalog: Catalog) -> None:
        """Use another configuration from the next request on."""
        self.nodes.use(stated.settings)
        self.bus.stream_replicas = stated.settings.nats.replicas
        self._nodes, self._node_event, self.catalog = None, -1, catalog
        await self.inputs.restate(stated)

    async def classes(self) -> tuple[ClassTable, Mapping[str, AccessList]]:
        """The classes and their access lists: those of the records, where another intake may have changed them."""
        await self.catch_up()
        return self.tables.classes, self.catalog.access

    async def use_classes(self, classes: ClassTable, access: Mapping[str, AccessList]) -> None:
        """Use these classes and their access lists."""
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
        now = self.clock()
        await self.group.do(lambda c: save_user_groups(c, groups, now), news=News.NOBODY)

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
        await self.catch_up()
        await self.see_nodes()
        submission = await self._read(payload, submitter, None)
        return await self.trial.judge(submission, submitter, self._with_eyes(submitter))

    async def take(
        self, submitter: Submitter, payload: bytes, message_id: str | None
    ) -> tuple[Submission, list[int], RankdError | None]:
        """Read, admit and store a message; returns the submission, the ids, and the error if some jobs are missing."""

        async def once() -> tuple[Submission, list[int], RankdError | None]:
            await self.see_nodes()
            submission = await self._read(payload, submitter, message_id)
            if submission.rejected and await self.catch_up():
                raise Outdated
            return await self._accept(submission, submitter, self._with_eyes(submitter))

        with self.counts.counting() as taken:
            return taken(*await self._as_of_now(once))

    async def take_again(self, again: Again, owner: str, asker: Submitter) -> Reply:
        """Admit an ended job of this owner again, and store it as a new one."""

        async def once() -> tuple[Submission, list[int], RankdError | None]:
            await self.see_nodes()
            await self.host_groups.need([owner])
            by_owner, changes = self._with_eyes(Submitter(owner, privileged=False)), self.beside.changes
            read = msgspec.structs.replace(read_again(again, by_owner, self._admission), changes=changes)
            return await self._accept(read, asker, by_owner)

        return with_doubt(*await self._as_of_now(once), self.nodes.offered)

    async def _as_of_now(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt again what was decided by something that another intake has changed.

        Raises:
            Outdated: others have changed something in every attempt.
        """
        for _ in range(TRIES):
            try:
                return await attempt()
            except Outdated:
                continue
            except Refused:
                if not await self.catch_up():
                    raise
        raise Outdated

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
        changes = self.beside.changes
        await self.host_groups.need([submitter.user])
        submission = await read_beside_others(payload, submitter, self._admission, self.rests, message_id)
        if submitter.privileged and await self.host_groups.need({job.user for job in submission.accepted}):
            submission = await read_beside_others(payload, submitter, self._admission, self.rests, message_id)
        return msgspec.structs.replace(submission, changes=changes)
