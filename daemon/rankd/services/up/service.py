"""``rankd up``: broker, database and all services on one machine. Each is a process that is kept running.

It stops the scheduler first, so that no more jobs start. Then it stops the agents, so that the ends of jobs are
reported, then the prioritizer, the intake and the broker. Jobs are ended only if somebody asks ``up`` to stop, and
never with ``keep_jobs``. If ``up`` is killed or fails, they continue, and the next ``rankd up`` finds them.
``up.json`` exists only while all services answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from rankd.bus.address import user_in, without_secret
from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.bus.outage import Spell
from rankd.config.configuration import load_configuration
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Unavailable, usable
from rankd.core.model.setting import Settings
from rankd.identity.credentials import SERVICES_CREDENTIALS, source_of
from rankd.services.keeper.orphan import end_kept
from rankd.services.runtime.life import end_tasks, unless
from rankd.services.runtime.log_file import keep_small
from rankd.services.runtime.metric.exported import Exported
from rankd.services.up.address import free_port, url_of
from rankd.services.up.broker import find_server, keep_streams, write_configuration
from rankd.services.up.broker_storage import BrokerStorage
from rankd.services.up.child import STOP_PATIENCE_S, Child, Manner
from rankd.services.up.command import (
    ADMIN_CREDENTIALS,
    FORECASTER,
    NODE_CREDENTIALS,
    UpOptions,
    auth_directory,
    files_to_connect,
    login_socket,
    service_commands,
)
from rankd.services.up.export import export
from rankd.services.up.interface import Tell, Told, Up
from rankd.services.up.notification_watch import NotificationWatch
from rankd.services.up.nursery import Nursery
from rankd.services.up.private_directory import check_text, make_private
from rankd.services.up.records import SQLITE, Records, check_kind
from rankd.services.up.space import check_space, stream_bytes
from rankd.services.up.trust import establish
from rankd.store.engine.lock import acquire_or_fail
from rankd.wire.message import Health
from rankd.wire.subject import NOTIFIER, WEB, encode_name

log = logging.getLogger("rankd.up")

PRIVATE = 0o077
"""The umask: only the user who runs ``rankd up`` may read its files."""

SAY_AFTER_S = 10.0
"""After this time ``up`` reports which service it waits for, and again every :data:`SAY_EVERY_S`."""
SAY_EVERY_S = 60.0
BROKER_PATIENCE_S = 60.0
THREADS = 32
"""Each process is waited for on a thread of its own, while it stops on two. asyncio's own pool has six on two cores."""
LOOK_EVERY_S = 0.05
WATCH_EVERY_S = 1.0
UNHEARD = 60
"""A service hangs if it fails to answer this many times in a row."""


async def run(
    options: UpOptions, told: Told, tell: Tell, nursery: Nursery | None = None, exported: Exported | None = None
) -> None:
    """Start all services, keep them running until ``told.stop`` is set, then stop them. ``nursery`` forks them.

    Raises:
        ConfigurationError, Unavailable: before or instead of running; ``no_space``: the disk is too full to begin.
        Refused: ``bad_path``, ``bad_name``, ``bad_listen``: directory, name or address can't be used.
    """
    settings = load_configuration(options.config).settings
    check_text(options.directory.absolute())
    options = msgspec.structs.replace(options, db=check_kind(options.directory, options.db))
    if options.local_agent:
        check_node_name(options.agent_name)
    umask = os.umask(PRIVATE)
    with usable(options.directory, "dir"):
        make_private(options.directory, without=options.directory / "agent" / "output", passable=options.is_passable)
        check_space(options.directory)
        lock = await acquire_or_fail(options.directory.absolute() / "up.lock", "rankd up")
    try:
        with usable(options.directory, "dir"):
            machine = _Machine(options, settings, umask, tell, nursery)
            machine.exported = exported
        await machine.run(told)
    finally:
        lock.close()
        os.umask(umask)


class _Machine:
    def __init__(self, options: UpOptions, settings: Settings, umask: int, tell: Tell, nursery: Nursery | None) -> None:
        grace_s, has_notifications = settings.node.grace_s, bool(settings.notifications.allow)
        self._options = options
        self.exported: Exported | None = None
        self._tell = tell
        self._umask = umask
        self._nursery = nursery
        self._directory = options.directory.absolute()
        self._file = self._directory / "up.json"
        self._logs = self._directory / "log"
        self._logs.mkdir(exist_ok=True)
        self._records = Records(self._directory, options.db or SQLITE, self._write_file)
        if options.local_agent:
            (self._directory / "agent" / "output").mkdir(parents=True, exist_ok=True)
        self._broker: Child | None = None
        self._node_bus: Bus | None = None
        """The connection that reaches the local agent: with authentication on, only the node's own account does."""
        self._is_written = False
        self._unwritten = Spell(log)
        self._storage = BrokerStorage(self._directory)
        self._silent: dict[str, tuple[int | None, int]] = {}
        """By service: the process that answered last, and how often it has not answered since."""
        self._secret = options.nats if options.nats and user_in(options.nats) else None
        """A URL with a password: the services get it in their environment."""
        self._grace_s = grace_s
        self._url = options.nats or self._embedded_broker()
        commands = service_commands(options, self._url, self._records.database)
        self._services = {name: self._child(name, command) for name, command in commands}
        self._services[FORECASTER].was_ready = True  # if it fails, nothing else has to end
        self._late: Child | None = None
        """The notifier, as long as the configuration allows no notifications."""
        if not has_notifications and (late := self._services.pop(NOTIFIER, None)) is not None:
            late.was_ready = True  # if it fails, nothing else has to end
            self._late = late
        self._ready = False
        self._awaited = ("nats", f"no connection to {without_secret(self._url)}")
        """The service that has to be ready next, and the text of its health."""

    def _embedded_broker(self) -> str:
        host = self._options.listen
        port = free_port(host, self._options.port, self._directory / "nats.port")
        trust = establish(self._options, time.time()) if self._options.has_site else None
        configuration = write_configuration(self._directory / "nats", host, port, trust)
        keep_streams(self._directory / "nats", None if trust is None else trust.accounts[0].public)
        self._broker = self._child("nats", [find_server(), "--config", str(configuration)])
        certified = None if trust is None else trust.certified
        return url_of(host, port) if certified is None else url_of(certified.host, port, "tls")

    def _child(self, name: str, command: list[str]) -> Child:
        return Child(name, command, self._log(name), self._write_file, self._manner(name))

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _manner(self, name: str) -> Manner:
        """How a child is run. Agents are killed when ``up`` dies, so jobs continue. Jobs get its original umask."""
        nursery = None if name == "nats" else self._nursery
        variables = {} if name == "nats" or self._secret is None else {"RANKD_NATS": self._secret}
        if name != "nats" and self._broker is not None:
            variables["RANKD_STREAM_BYTES"] = os.environ.get("RANKD_STREAM_BYTES") or str(stream_bytes(self._directory))
        if not name.startswith("agent"):
            variables |= {} if name in ("nats", "gateway") else self._records.variables
            return Manner(variables=variables, nursery=nursery)
        patience_s = STOP_PATIENCE_S + self._grace_s
        return Manner(signal.SIGKILL, self._umask, patience_s, variables, nursery)

    async def run(self, told: Told) -> None:
        """Run until ``told.stop`` is set, or until a service fails too often."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "up"))
        self._file.unlink(missing_ok=True)
        await self._records.prepare()
        server, everything = self._records.child, [child for child in (self._broker, *self._services.values()) if child]
        try:
            async with asyncio.TaskGroup() as group:
                keeping = [group.create_task(server.keep())] if server else []
                await unless(told.stop, self._records.upgrade())
                if not told.stop.is_set():
                    keeping += [group.create_task(child.keep()) for child in everything]
                logs = [self._log(child.name) for child in (*everything, self._late, server) if child]
                watching = [
                    group.create_task(loop)
                    for loop in (
                        self._watch(),
                        self._say_what_is_awaited(),
                        self._pass_on(told.hangup),
                        self._begin_late(lambda child: keeping.append(group.create_task(child.keep()))),
                        keep_small(logs),
                    )
                ]
                await told.stop.wait()
                await end_tasks(*watching)
                await self._stop(told.hurry)
                await end_tasks(*keeping)
        finally:
            await self._abandon()

    async def _begin_late(self, begin: Callable[[Child], None]) -> None:
        """Start the notifier once the configuration allows notifications."""
        if self._late is not None:
            await NotificationWatch(self._records.database).until_allowed()
            self._services[NOTIFIER] = self._late
            begin(self._late)

    async def _pass_on(self, hangup: asyncio.Event) -> None:
        """Pass the signal to the intake, which reads the configuration and informs the others."""
        while True:
            await hangup.wait()
            hangup.clear()
            self._services["intake"].signal(signal.SIGHUP)

    async def _stop(self, hurry: asyncio.Event) -> None:
        """Stop on request: jobs are ended, and their ends reported, unless they are to be kept."""
        self._withdraw()
        await self._services["scheduler"].stop()
        if running := await asyncio.to_thread(self._records.count_running, self._options.agents):
            self._tell.stopping(running, self._grace_s)
        async with asyncio.TaskGroup() as group:
            hurrying = group.create_task(self._hurry(hurry))
            await asyncio.gather(*(child.stop() for child in self._agents()))
            await end_tasks(hurrying)
        if not self._options.keep_jobs:
            await end_kept(self._directory / "agent", self._grace_s)  # in case the agent has just been killed
        await self._stop_rest()

    async def _hurry(self, hurry: asyncio.Event) -> None:
        """Send the agents the signal a second time."""
        await hurry.wait()
        for child in self._agents():
            child.signal(signal.SIGTERM)

    async def _abandon(self) -> None:
        """Stop what still runs after any failure, and leave the jobs running."""
        self._withdraw()
        await self._services["scheduler"].stop()
        await asyncio.gather(*(child.kill() for child in self._agents()))
        await self._stop_rest()

    async def _stop_rest(self) -> None:
        for name in (WEB, "gateway", NOTIFIER, FORECASTER, "prioritizer", "intake"):
            if name in self._services:
                await self._services[name].stop()
        if self._broker is not None:
            await self._broker.stop()
        await self._records.stop()

    def _withdraw(self) -> None:
        self._ready = False
        self._file.unlink(missing_ok=True)

    def _agents(self) -> list[Child]:
        return [child for name, child in self._services.items() if name.startswith("agent")]

    async def _watch(self) -> None:
        """Announce readiness, then note which services have ever been ready."""
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(self._bus(SERVICES_CREDENTIALS))
            self._node_bus = bus
            if self._options.has_site and self._options.local_agent:
                self._node_bus = await stack.enter_async_context(self._bus(NODE_CREDENTIALS))
            for name in [name for name in self._services if name != FORECASTER]:
                await self._until_ready(bus, name)
            if self.exported is not None:
                export(self.exported, self._records.database, str(self._directory), bus, stack)
            self._ready = True
            self._write_file()
            self._tell.ready(self._described())
            while True:
                await asyncio.sleep(WATCH_EVERY_S)
                if not self._is_written:
                    self._write_file()
                for name, child in list(self._services.items()):
                    await self._look_after(bus, name, child)
                self._look_after_broker()

    def _bus(self, credentials: str) -> Bus:
        source = source_of(self._creds(credentials))
        patience_s, tls = self._broker_patience_s, self._options.client_tls
        bus = Bus(self._url, "up", connect_timeout_s=patience_s, credentials=source, tls=tls)
        if self._broker is not None:
            bus.outage.quiet_s = SAY_AFTER_S  # it was started a moment ago, so it may not listen yet
        return bus

    def _creds(self, file: str) -> Path | None:
        """One of the files of credentials; None where the broker has not got them from us."""
        return auth_directory(self._directory) / file if self._options.has_site else None

    async def _look_after(self, bus: Bus, name: str, child: Child) -> None:
        """Kill a service that answered before and no longer answers; it is then started again."""
        pid, health = child.pid, await self._health(bus, name)
        if health is not None:
            child.was_ready = child.was_ready or health.ready
            self._storage.note(health.code)
            self._silent[name] = (pid, 0)
            return
        answered, silent = self._silent.get(name, (None, 0))
        if answered != pid or not bus.client.is_connected:
            return
        self._silent[name] = (pid, silent + 1)
        if silent >= UNHEARD:
            log.error("%s (process %s) has not answered %d times in a row: it is killed", name, pid, silent)
            child.signal(signal.SIGKILL)

    def _look_after_broker(self) -> None:
        """Restart a broker that stores nothing after a full disk: it does so only after a restart, even with room."""
        if self._broker is not None and self._storage.needs_restart(time.monotonic()):
            log.warning("the broker stores nothing, and the disk has room: it is started again")
            self._broker.signal(signal.SIGTERM)

    @property
    def _broker_patience_s(self) -> float | None:
        """How long to wait for the broker; None for an embedded one: as long as its process lives."""
        return BROKER_PATIENCE_S if self._broker is None else None

    async def _say_what_is_awaited(self) -> None:
        """Report which service is awaited, until all are ready."""
        await asyncio.sleep(SAY_AFTER_S)
        while not self._ready:
            self._tell.waiting(*self._awaited)
            await asyncio.sleep(SAY_EVERY_S)

    async def _until_ready(self, bus: Bus, name: str) -> None:
        """Wait without a limit; :meth:`Child.keep` notices a child that keeps ending."""
        while not await self._is_ready(bus, name):  # noqa: ASYNC110 - another process, asked over the bus
            await asyncio.sleep(LOOK_EVERY_S)
        self._services[name].was_ready = True
        self._silent[name] = (self._services[name].pid, 0)

    async def _is_ready(self, bus: Bus, name: str) -> bool:
        health = await self._health(bus, name)
        self._awaited = (name, "it does not answer" if health is None else health.detail)
        return health is not None and health.ready

    async def _health(self, bus: Bus, name: str) -> Health | None:
        """The service's health; None if it does not answer."""
        try:
            asked = self._node_bus if name == "agent" and self._node_bus is not None else bus
            own = f"agent-{encode_name(self._options.agent_name)}" if name == "agent" else name
            return await ask_health(asked, own, timeout_s=1.0)
        except Unavailable:
            return None

    def _described(self) -> Up:
        children = {name: child.pid for name, child in self._services.items()}
        if self._broker is not None:
            children["nats"] = self._broker.pid
        if self._records.child is not None:
            children[self._records.child.name] = self._records.child.pid
        files = [None if path is None else str(path.absolute()) for path in files_to_connect(self._options)]
        return Up(
            nats=without_secret(self._url),
            creds=None if (creds := self._creds(ADMIN_CREDENTIALS)) is None else str(creds),
            ca=files[0],
            tls_cert=files[1],
            tls_key=files[2],
            login=str(login_socket(self._directory)) if self._options.has_site else None,
            db=self._records.shown,
            pids={name: pid for name, pid in children.items() if pid is not None},
            ready=self._ready,
            config=str(self._options.config.absolute()),
            pid=os.getpid(),
            listen=None if self._broker is None else self._options.listen,
        )

    def _write_file(self) -> None:
        """Replace ``up.json`` as a whole, since pids change with restarts. On a full disk: try again a second later."""
        self._is_written = False
        if not self._ready:
            return
        temporary = self._file.with_suffix(".tmp")
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self._described())) + b"\n")
            temporary.replace(self._file)
        except OSError as error:
            self._unwritten.note(f"{self._file} cannot be written: {error}", f"{self._file} still cannot be written")
            return
        self._unwritten.over(f"{self._file} is written again")
        self._is_written = True
