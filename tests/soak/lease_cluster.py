"""A site that outlives its parts: PostgreSQL, three brokers, two instances of each service, agents. Links between."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from integration.broker_cluster import free_ports
from soak.cluster import BIN, DEVICES, NODES, SERVICES, SETTINGS, Child, Cluster
from soak.database_pair import DatabasePair, url_of
from soak.link import Link

BROKERS = 3
INSTANCES = 2
NOWHERE = "127.0.0.1:1"
"""No server listens at this address."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
LEASED = "SELECT name, epoch, takeover_s FROM service"
OPEN_JOBS = "SELECT count(*) FROM jobs WHERE state IN ('pending', 'allocated', 'running')"


class Wires:
    """The links between a process and several ports, as one."""

    def __init__(self, ports: list[int]) -> None:
        self._links = [Link(port) for port in ports]

    @classmethod
    def of(cls, links: list[Link]) -> Self:
        """Those that have been started."""
        found = cls([])
        found._links = links
        return found

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


class LeaseCluster(Cluster):
    """All of them, in a directory."""

    settings = f"{SETTINGS}[nats]\nreplicas = 3\n"
    counts_jobs = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.pair = DatabasePair(directory, self.children)
        self.ports: list[int] = []
        self.clocks: dict[str, Path] = {}
        self.take_overs: dict[tuple[str, int], float] = {}

    def heads(self) -> dict[str, list[str]]:
        """The services of each head."""
        return {f"head-{number}": [f"{service}-{number}" for service in SERVICES] for number in range(1, INSTANCES + 1)}

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports]

    @property
    def url(self) -> str:
        """The database, without a link between."""
        return self.pair.url

    async def start(self) -> None:
        self.locks.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config"
        config.mkdir()
        (config / "rankd.toml").write_text(self.settings)
        await self._start_databases()
        await self._start_brokers()
        upgrade = [BIN / "rankd", "db", "upgrade", "--db", self.url]
        await asyncio.to_thread(subprocess.run, upgrade, check=True)  # its commits pass a link, which is in this loop
        for instance in range(1, INSTANCES + 1):
            for service in SERVICES:
                await self._start_service(f"{service}-{instance}", service, config)
        for node, cores in NODES.items():
            options = ["--name", node, "--state", str(self.directory / node), "--no-limits", "--run-as", "agent"]
            offers = [f"--device=gpu:{model}:1" for model in DEVICES.get(node, ())]
            await self._start_child(node, ["agent", *options, "--resources", f"vcore={cores},memory=4Gi", *offers])
        await self._link("client")

    async def _start_databases(self) -> None:
        await self.pair.start()
        self.links["postgres-1 postgres-2"] = Wires.of(self.pair.links)

    async def _start_brokers(self) -> None:
        """Each broker reaches each other one through a link. They advertise an address at which no server listens."""
        *self.ports, first, second, third = free_ports(2 * BROKERS)
        self.port, routes = self.ports[0], [first, second, third]
        ways = {(one, other): Link(routes[other]) for one, other in itertools.permutations(range(BROKERS), 2)}
        for link in ways.values():
            await link.start()
        for one, other in itertools.combinations(range(BROKERS), 2):
            name = f"nats-{one + 1} nats-{other + 1}"
            self.links[name] = Wires.of([ways[one, other], ways[other, one]])
        for number in range(BROKERS):
            targets = [link.url for (one, _), link in ways.items() if one == number]
            await self._start_cluster_broker(number, routes[number], targets)

    async def _start_cluster_broker(self, number: int, port: int, routes: list[str]) -> None:
        name = f"nats-{number + 1}"
        path = self.directory / f"{name}.conf"
        path.write_text(
            f"server_name: {name}\nhost: 127.0.0.1\nport: {self.ports[number]}\n"
            f'jetstream {{ store_dir: "{self.directory / name}", sync_interval: always }}\n'
            f"cluster {{ name: rankd, host: 127.0.0.1, port: {port}, no_advertise: true, advertise: {NOWHERE},"
            f" routes: {json.dumps(routes)} }}\n"
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
        database = self.links[f"{name} db"] = Wires(self.pair.ports)
        await database.start()
        url = url_of(database.ports)
        command = [str(BIN / "rankd"), service, "--db", url, "--config", str(config), "--nats", wires.url]
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

    def took(self, role: str) -> list[float]:
        """Seconds of each take-over of a role that was noted."""
        return [seconds for (name, _), seconds in self.take_overs.items() if name == role]

    async def watch(self) -> None:
        """For ever: note how long each take-over took, and how many jobs have not ended."""
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(0.3)

    def _look(self) -> None:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2) as connection:
            [(self.open_jobs,)] = connection.execute(OPEN_JOBS)
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
        for name in ("nats-1", "nats-2", "nats-3"):
            if name in self.children:
                await self.children[name].stop()
        await self.pair.stop()
