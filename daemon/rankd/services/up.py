"""``rankd up``: broker, database and all services on one machine, each a process that is kept running.

Stops so that nothing is lost on its way: the scheduler (nothing new starts), agents (jobs end and are reported),
prioritizer, intake, broker. ``up.json`` exists exactly while everything answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from rankd.bus.address import user_in, without_secret
from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.config.configuration import load_configuration
from rankd.core.errors import Unavailable
from rankd.plugin.interpreter import python_command
from rankd.services.broker import HOST, find_server, free_port, write_configuration
from rankd.services.child import Child
from rankd.services.keeper_link import end_kept
from rankd.services.runtime import end_tasks
from rankd.store.database import Database
from rankd.store.lock import acquire_or_fail
from rankd.store.migration import upgrade
from rankd.wire.message import Health
from rankd.wire.subject import encode_name

log = logging.getLogger("rankd.up")

READY_PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05
WATCH_EVERY_S = 1.0
UNHEARD = 60
"""A service that does not answer this often in a row hangs."""


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. ``nats`` None: the embedded broker, on ``port`` (0: a free one)."""

    directory: Path
    config: Path
    simulate: int = 0
    local_agent: bool = True
    agent_name: str
    nats: str | None = None
    port: int = 0


class Up(msgspec.Struct, frozen=True, kw_only=True):
    """``up.json``."""

    nats: str
    db: str
    pids: dict[str, int]
    ready: bool
    config: str
    pid: int


async def run(
    options: UpOptions, stop: asyncio.Event, on_ready: Callable[[Up], None], hangup: asyncio.Event | None = None
) -> None:
    """Start everything, keep it running until ``stop``, stop everything. At every ``hangup`` the intake gets SIGHUP.

    Raises:
        ConfigurationError, Unavailable: before or instead of running.
    """
    grace_s = load_configuration(options.config).settings.node.grace_s
    options.directory.mkdir(parents=True, exist_ok=True)
    lock = await acquire_or_fail(options.directory / "up.lock", "rankd up")
    try:
        await _Machine(options, grace_s, on_ready).run(stop, hangup or asyncio.Event())
    finally:
        lock.close()


class _Machine:
    def __init__(self, options: UpOptions, grace_s: float, on_ready: Callable[[Up], None]) -> None:
        self._options = options
        self._on_ready = on_ready
        self._directory = options.directory.absolute()
        self._file = self._directory / "up.json"
        self._db = self._directory / "rankd.db"
        self._logs = self._directory / "log"
        self._logs.mkdir(exist_ok=True)
        self._broker: Child | None = None
        self._url = options.nats or self._embedded_broker()
        self._services = {name: self._child(name, command) for name, command in self._commands()}
        self._ready = False
        self._silent: dict[str, tuple[int | None, int]] = {}
        """By service: the process that answered last, and how often it has not answered since."""
        self._grace_s = grace_s

    def _embedded_broker(self) -> str:
        port = free_port(self._options.port, self._directory / "nats.port")
        configuration = write_configuration(self._directory / "nats", port)
        self._broker = self._child("nats", [find_server(), "--config", str(configuration)])
        return f"nats://{HOST}:{port}"

    def _child(self, name: str, command: list[str]) -> Child:
        return Child(name, command, self._logs / f"{name}.log", self._write_file)

    def _commands(self) -> list[tuple[str, list[str]]]:
        """Services by name, in starting order; agents last."""
        rankd = python_command("rankd")
        place = [*self._broker_flag(), "--db", str(self._db), "--config", str(self._options.config.absolute())]
        commands = [(name, [*rankd, name, *place]) for name in ("intake", "prioritizer", "scheduler")]
        if self._options.local_agent:
            local = self._agent(self._options.agent_name, "agent")
            commands.append(("agent", [*rankd, *local, "--run-as", "agent"]))
        if self._options.simulate:
            simulated = self._agent("sim", "agent-sim")
            more = ["--simulate", str(self._options.simulate), "--labels", "simulated=true"]
            commands.append(("agent-sim", [*rankd, *simulated, *more]))
        return commands

    def _broker_flag(self) -> list[str]:
        """Not where everybody sees it if there is a password in it: the children have it in their environment."""
        if user_in(self._url) is None:
            return ["--nats", self._url]
        os.environ["RANKD_NATS"] = self._url
        return []

    def _agent(self, name: str, folder: str) -> list[str]:
        return ["agent", *self._broker_flag(), "--name", name, "--state", str(self._directory / folder)]

    async def run(self, stop: asyncio.Event, hangup: asyncio.Event) -> None:
        """Until ``stop``, or until a service turns out to be hopeless."""
        self._file.unlink(missing_ok=True)
        async with Database(self._db) as database:
            await upgrade(database)
        everything = [child for child in (self._broker, *self._services.values()) if child]
        try:
            async with asyncio.TaskGroup() as group:
                keeping = [group.create_task(child.keep()) for child in everything]
                watching = [group.create_task(self._watch()), group.create_task(self._pass_on(hangup))]
                await stop.wait()
                await end_tasks(*watching)
                await self._stop()
                await end_tasks(*keeping)
        finally:
            self._file.unlink(missing_ok=True)
            await self._stop()

    async def _pass_on(self, hangup: asyncio.Event) -> None:
        """The intake reads the configuration, and tells the others."""
        while True:
            await hangup.wait()
            hangup.clear()
            self._services["intake"].signal(signal.SIGHUP)

    async def _stop(self) -> None:
        self._ready = False
        self._file.unlink(missing_ok=True)
        await self._services["scheduler"].stop()
        agents = [child for name, child in self._services.items() if name.startswith("agent")]
        await asyncio.gather(*(child.stop() for child in agents))
        await end_kept(self._directory / "agent", self._grace_s)  # should the agent have been killed just now
        for name in ("prioritizer", "intake"):
            await self._services[name].stop()
        if self._broker is not None:
            await self._broker.stop()

    async def _watch(self) -> None:
        """Announce readiness, then keep an eye on which services have ever been ready."""
        async with Bus(self._url, "up", connect_timeout_s=READY_PATIENCE_S) as bus:
            for name in self._services:
                await self._until_ready(bus, name)
            self._ready = True
            self._write_file()
            self._on_ready(self._described())
            while True:
                await asyncio.sleep(WATCH_EVERY_S)
                for name, child in self._services.items():
                    await self._look_after(bus, name, child)

    async def _look_after(self, bus: Bus, name: str, child: Child) -> None:
        """End a service that has answered before and says nothing any more: it is then started again."""
        pid, health = child.pid, await self._health(bus, name)
        if health is not None:
            child.was_ready = child.was_ready or health.ready
            self._silent[name] = (pid, 0)
            return
        answered, silent = self._silent.get(name, (None, 0))
        if answered != pid or not bus.client.is_connected:
            return
        self._silent[name] = (pid, silent + 1)
        if silent >= UNHEARD:
            log.error("%s (process %s) has not answered %d times in a row: it is killed", name, pid, silent)
            child.signal(signal.SIGKILL)

    async def _until_ready(self, bus: Bus, name: str) -> None:
        try:
            async with asyncio.timeout(READY_PATIENCE_S):
                while not await self._is_ready(bus, name):  # noqa: ASYNC110 - another process, asked over the bus
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            message = f"{name} did not become ready within {READY_PATIENCE_S:.0f} s; see {self._logs}/{name}.log"
            raise Unavailable("not_ready", message) from None
        self._services[name].was_ready = True
        self._silent[name] = (self._services[name].pid, 0)

    async def _is_ready(self, bus: Bus, name: str) -> bool:
        health = await self._health(bus, name)
        return health is not None and health.ready

    async def _health(self, bus: Bus, name: str) -> Health | None:
        """What the service says; None if it does not answer."""
        try:
            return await ask_health(bus, self._health_name(name), timeout_s=1.0)
        except Unavailable:
            return None

    def _health_name(self, name: str) -> str:
        """What the service is called on the bus: agents by their own names."""
        return f"agent-{encode_name(self._options.agent_name)}" if name == "agent" else name

    def _described(self) -> Up:
        children = {name: child.pid for name, child in self._services.items()}
        if self._broker is not None:
            children["nats"] = self._broker.pid
        return Up(
            nats=without_secret(self._url),
            db=str(self._db),
            pids={name: pid for name, pid in children.items() if pid is not None},
            ready=self._ready,
            config=str(self._options.config.absolute()),
            pid=os.getpid(),
        )

    def _write_file(self) -> None:
        """Replace ``up.json`` whole; pids change when something was started again."""
        if not self._ready:
            return
        temporary = self._file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self._described())) + b"\n")
        temporary.replace(self._file)
