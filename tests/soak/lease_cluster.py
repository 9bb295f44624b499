"""A site that outlives its parts: PostgreSQL, three brokers, two instances of each service, agents. Links between."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from integration.broker_cluster import free_ports
from postgres_server import SETTINGS as POSTGRES_SETTINGS
from postgres_server import _binaries, _user
from soak.cluster import BIN, DEVICES, NODES, SERVICES, SETTINGS, Child, Cluster
from soak.link import Link

BROKERS = 3
INSTANCES = 2
START_S = 60
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
LEASED = """SELECT name, epoch, takeover_s FROM service"""


class Wires:
    """The links between a process and several ports, as one."""

    def __init__(self, ports: list[int]) -> None:
        self._links = [Link(port) for port in ports]

    @property
    def urls(self) -> list[str]:
        return [link.url for link in self._links]

    @property
    def url(self) -> str:
        return ",".join(self.urls)

    @property
    def ports(self) -> list[int]:
        return [link.port for link in self._links]

    async def start(self) -> None:
        for link in self._links:
            await link.start()

    async def stop(self) -> None:
        for link in self._links:
            await link.stop()

    def cut(self) -> None:
        for link in self._links:
            link.cut()

    def stall(self) -> None:
        for link in self._links:
            link.stall()

    def mend(self) -> None:
        for link in self._links:
            link.mend()


class Server(Child):
    """PostgreSQL. Its processes are not of one group, so each gets the signal."""

    def signal(self, number: signal.Signals) -> None:
        if number is signal.SIGTERM:
            number = signal.SIGINT  # a fast shutdown: it does not wait for sessions
        pids = [self.pid] if number in (signal.SIGINT, signal.SIGKILL) else [self.pid, *_children(self.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def start(self) -> None:
        """After a kill, its processes take a moment to end. Until then, a new server refuses to start."""
        while self._process is not None and _children_of_dead(self._data):
            await asyncio.sleep(0.05)
        await super().start()

    def __init__(self, command: list[str], log: Path, data: Path) -> None:
        super().__init__("postgres", command, log)
        self._data = data
        self._more = _user()


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _children_of_dead(data: Path) -> bool:
    """Whether a process of the server works in this directory."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "cwd").readlink() == data:
                return True
    return False


class LeaseCluster(Cluster):
    """All of them, in a directory."""

    settings = f"{SETTINGS}[nats]\nreplicas = 3\n"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.server = Path(tempfile.mkdtemp(prefix="rankd-pg-", dir="/tmp"))
        self.ports: list[int] = []
        self.database_port = 0
        self.clocks: dict[str, Path] = {}
        self.take_overs: dict[tuple[str, int], float] = {}

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports]

    @property
    def url(self) -> str:
        """The database, without a link between."""
        return self._url(self.database_port)

    def _url(self, port: int) -> str:
        return f"postgresql://rankd@127.0.0.1:{port}/postgres"

    async def start(self) -> None:
        self.locks.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config"
        config.mkdir()
        (config / "rankd.toml").write_text(self.settings)
        await self._start_server()
        for number in range(BROKERS):
            await self._start_cluster_broker(number)
        subprocess.run([BIN / "rankd", "db", "upgrade", "--db", self.url], check=True)
        for instance in range(1, INSTANCES + 1):
            for service in SERVICES:
                await self._start_service(f"{service}-{instance}", service, config)
        for node, cores in NODES.items():
            options = ["--name", node, "--state", str(self.directory / node), "--no-limits", "--run-as", "agent"]
            offers = [f"--device=gpu:{model}:1" for model in DEVICES.get(node, ())]
            await self._start_child(node, ["agent", *options, "--resources", f"vcore={cores},memory=4Gi", *offers])
        await self._link("client")

    async def _start_server(self) -> None:
        *self.ports, self.database_port = free_ports(BROKERS + 1)
        self.port = self.ports[0]
        if os.geteuid() == 0:
            shutil.chown(self.server, "nobody", "nogroup")
        binaries, data = _binaries(self.server), self.server / "data"
        make = [binaries / "initdb", "-D", data, "-U", "rankd", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, **_user())
        settings = POSTGRES_SETTINGS | {"listen_addresses": "127.0.0.1", "port": str(self.database_port)}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [str(binaries / "postgres"), "-D", str(data), f"-cunix_socket_directories={self.server}", *options]
        self.children["postgres"] = Server(command, self.directory / "postgres.log", data)
        await self.children["postgres"].start()
        end = time.monotonic() + START_S
        while not self.answers():
            assert time.monotonic() < end, (self.directory / "postgres.log").read_text()
            await asyncio.sleep(0.05)

    def answers(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2):
            return True
        return False

    async def _start_cluster_broker(self, number: int) -> None:
        if number == 0:
            self._routes = free_ports(BROKERS)
        name, routes = f"nats-{number + 1}", ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        path = self.directory / f"{name}.conf"
        path.write_text(
            f"server_name: {name}\nhost: 127.0.0.1\nport: {self.ports[number]}\n"
            f'jetstream {{ store_dir: "{self.directory / name}", sync_interval: always }}\n'
            f"cluster {{ name: rankd, host: 127.0.0.1, port: {self._routes[number]}, no_advertise: true,"
            f" routes: [{routes}] }}\n"
        )
        child = self.children[name] = Child(
            name, [str(BIN / "nats-server"), "-c", str(path)], self.directory / f"{name}.log"
        )
        await child.start()

    async def _link(self, name: str) -> Wires:
        wires = self.links[name] = Wires(self.ports)
        await wires.start()
        return wires

    async def _start_service(self, name: str, service: str, config: Path) -> None:
        wires = await self._link(name)
        database = self.links[f"{name} db"] = Wires([self.database_port])
        await database.start()
        [port] = database.ports
        command = [str(BIN / "rankd"), service, "--db", self._url(port), "--config", str(config), "--nats", wires.url]
        self.children[name] = Child(name, [*self._clock(name), *command], self.directory / f"{name}.log")
        await self.children[name].start()

    def _clock(self, name: str) -> list[str]:
        """What lets a test step the clock of this process."""
        if FAKETIME is None or name.startswith("intake"):
            return []
        self.clocks[name] = self.directory / f"{name}.clock"
        self.step(name, 0)
        return [
            "env",
            f"LD_PRELOAD={FAKETIME}",
            f"FAKETIME_TIMESTAMP_FILE={self.clocks[name]}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]

    def step(self, name: str, seconds: float) -> None:
        """Set the clock of a process ahead (or back) of the machine's."""
        new = self.clocks[name].with_suffix(".new")
        new.write_text(f"{seconds:+.3f}")
        new.rename(self.clocks[name])

    async def watch_take_overs(self) -> None:
        """For ever: note how long each take-over took."""
        while True:
            await asyncio.to_thread(self._note_take_overs)
            await asyncio.sleep(0.3)

    def _note_take_overs(self) -> None:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2) as connection:
            for name, epoch, took in connection.execute(LEASED):
                if took is not None and epoch > 1:
                    self.take_overs[name, epoch] = took

    async def stop_services(self) -> None:
        for name in (*NODES, *(name for name in self.children if name.partition("-")[0] in SERVICES)):
            if name in self.children:
                await self.children[name].stop()

    async def stop(self) -> None:
        await self.stop_services()
        for keeper in self.keepers():
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
        for link in self.links.values():
            await link.stop()
        for name in ("nats-1", "nats-2", "nats-3", "postgres"):
            if name in self.children:
                await self.children[name].stop()
        shutil.rmtree(self.server, ignore_errors=True)
