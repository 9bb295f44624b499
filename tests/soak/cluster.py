"""Every process of a rankd under fault: the broker, three services and real agents, each on a link of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from soak.link import Link
from watch import appears

from rankd.store.engine.driver import sqlite3

BIN = Path(sys.executable).parent
NODES = {"n1": 4, "n2": 4, "n3": 2}
"""Cores of each node."""
DEVICES = {"n1": ["a100", "a100", "v100"], "n2": ["a100", "v100"]}
"""Models of each node's made-up devices, by index."""

SERVICES = ("intake", "prioritizer", "scheduler")
STOP_PATIENCE_S = 30
"""An agent whose broker is away waits 10 s for its reports, 5 s for an acknowledgement, and for its jobs."""

UNSTOPPED = "did not stop within"

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ |+-].*\n)*(?:\S.*)?")

ORPHAN_S = 25
"""An interactive job is ended after this time without its client. Faults are shorter."""

SETTINGS = f"""
default_qos = "normal"
[priority]
period_s = 1
[priority.weights]
age = 1000
fairshare = 10000
qos = 5000
[priority.fairshare]
half_life_s = 600
[admission]
unknown_association = "default"
resource_types = ["memory", "gpu", "gpu:a100", "gpu:v100"]
[scheduling]
stale_after_s = 10
[node]
heartbeat_s = 0.5
lost_after_s = 4
grace_s = 1
max_requeues = 20
[sessions]
orphan_s = {ORPHAN_S}
[[qos]]
name = "normal"
priority = 10
"""


class Child:
    """A process that is started again whenever it ends, unless a fault keeps it down."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.wanted = True
        self.surprises: list[str] = []
        self._command = command
        self._log = log
        self._more: dict[str, object] = {"env": os.environ | {"PYTHONFAULTHANDLER": "1"}}
        self._process: asyncio.subprocess.Process | None = None
        self._is_up = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_started(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=log, **self._more)
        self._is_up.set()

    async def keep(self) -> None:
        """For ever: start it again whenever it has ended by itself."""
        while True:
            await self._is_up.wait()
            process = self._process
            status = await process.wait()
            if process is not self._process:
                continue
            self._is_up.clear()
            if self.wanted:
                self.surprises.append(f"{self.name} ended with {status}")
                await self.start()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def kill(self) -> None:
        self.wanted = False
        self.signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> bool:
        """As an administrator does; whether it obeyed in time."""
        self.wanted = False
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_PATIENCE_S)
        except TimeoutError:
            self.surprises.append(f"{self.name} {UNSTOPPED} {STOP_PATIENCE_S} s")
            self.signal(signal.SIGABRT)  # its log says where each thread is
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_PATIENCE_S)
            await self.kill()
            return False
        return True

    async def again(self) -> None:
        await self.start()
        self.wanted = True


class Cluster:
    """All of them, in a directory."""

    settings = SETTINGS
    """The text of rankd.toml."""
    counts_jobs = False
    """Whether ``open_jobs`` is kept up to date."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / "rankd.db"
        self.starts = directory / "starts.log"
        self.clashes = directory / "clashes.log"
        self.locks = directory / "locks"
        self.children: dict[str, Child] = {}
        self.links: dict[str, Link] = {}
        self.port = 0
        self.open_jobs = 0

    @property
    def urls(self) -> list[str]:
        """The brokers, without a link between."""
        return [f"nats://127.0.0.1:{self.port}"]

    async def start(self) -> None:
        self.locks.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config"
        config.mkdir()
        (config / "rankd.toml").write_text(self.settings)
        subprocess.run([BIN / "rankd", "db", "upgrade", "--db", self.database], check=True)
        await self._start_broker()
        for service in SERVICES:
            options = ["--db", str(self.database), "--config", str(config)]
            await self._start_child(service, [service, *options])
        for node, cores in NODES.items():
            options = ["--name", node, "--state", str(self.directory / node), "--no-limits", "--run-as", "agent"]
            offers = [f"--device=gpu:{model}:1" for model in DEVICES.get(node, ())]
            await self._start_child(node, ["agent", *options, "--resources", f"vcore={cores},memory=4Gi", *offers])
        await self._link("client")

    async def _start_broker(self) -> None:
        """The first start finds a port, which it keeps."""
        path = self.directory / "nats.conf"
        store = self.directory / "jetstream"

        def configure(port: int) -> None:
            stream = f'jetstream {{ store_dir: "{store}", sync_interval: always }}'
            ports = f'ports_file_dir: "{self.directory}"'
            path.write_text(f"host: 127.0.0.1\nport: {port}\n{ports}\n{stream}\n")

        configure(-1)
        command = [str(BIN / "nats-server"), "-c", str(path)]
        child = self.children["nats"] = Child("nats", command, self.directory / "nats.log")
        await child.start()
        ports = json.loads(await appears(self.directory / f"nats-server_{child.pid}.ports"))
        self.port = int(ports["nats"][0].rpartition(":")[2])
        configure(self.port)

    async def _link(self, name: str) -> Link:
        link = self.links[name] = Link(self.port)
        await link.start()
        return link

    async def _start_child(self, name: str, words: list[str]) -> None:
        link = await self._link(name)
        command = [str(BIN / "rankd"), *words, "--nats", link.url]
        child = self.children[name] = Child(name, command, self.directory / f"{name}.log")
        await child.start()

    def record_of(self, name: str) -> sqlite3.Row | None:
        """The job of this name."""
        with closing(sqlite3.connect(self.database, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            query = "SELECT id, state, ended_at, exit_status FROM jobs WHERE name = ?"
            return connection.execute(query, (name,)).fetchone()

    def keepers(self) -> list[int]:
        """Processes that hold the nodes' jobs."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and self._is_keeper((entry / "cmdline").read_bytes()):
                    found.append(int(entry.name))
        return sorted(found)

    def _is_keeper(self, command: bytes) -> bool:
        return b"rankd.services.keeper.service" in command and str(self.directory).encode() in command

    async def keep_up(self) -> None:
        """For ever: what ends by itself is started again."""
        async with asyncio.TaskGroup() as group:
            for child in self.children.values():
                group.create_task(child.keep())

    async def stop(self) -> None:
        for name in (*NODES, "scheduler", "prioritizer", "intake", "nats"):
            if name in self.children:
                await self.children[name].stop()
        for keeper in self.keepers():
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
        for link in self.links.values():
            await link.stop()

    def tracebacks(self) -> list[str]:
        """First and last lines of what the processes did not expect."""
        return [
            f"{path.name}: {text.strip().splitlines()[-1]}"
            for path in sorted(self.directory.glob("*.log"))
            for text in _TRACEBACK.findall(path.read_text())
        ]
