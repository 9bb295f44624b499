"""A PostgreSQL primary and its synchronous standby, with a link between them; the standby can be promoted."""

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
from postgres_server import SETTINGS, _binaries, _user
from soak.cluster import Child
from soak.link import Link

START_S = 120
LOOK_S = 0.05
STANDBY = "standby"
MORE = {
    "listen_addresses": "127.0.0.1",
    "wal_keep_size": "256MB",
    "wal_retrieve_retry_interval": "500ms",
    "hot_standby_feedback": "on",
}
NAMES = ("postgres-1", "postgres-2")


class Server(Child):
    """PostgreSQL. Its processes are not of one group, so each gets the signal."""

    def __init__(self, name: str, command: list[str], log: Path, data: Path) -> None:
        super().__init__(name, command, log)
        self._data = data
        self._more = _user()

    def signal(self, number: signal.Signals) -> None:
        if number is signal.SIGTERM:
            number = signal.SIGINT  # a fast shutdown: it does not wait for sessions
        pids = [self.pid] if number in (signal.SIGINT, signal.SIGKILL) else [self.pid, *_children(self.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def start(self) -> None:
        """After a kill, its processes take a moment to end. Until then, a new server refuses to start."""
        await self.all_dead()
        await super().start()

    async def all_dead(self) -> None:
        """Until no process of this server is left."""
        while self._process is not None and _works_in(self._data):
            await asyncio.sleep(LOOK_S)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _works_in(data: Path) -> bool:
    """Whether a process of the server works in this directory."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "cwd").readlink() == data:
                return True
    return False


class DatabasePair:
    """Both servers. Each copies from the other one by ``links[its own number]``, if it is the standby."""

    def __init__(self, directory: Path, children: dict[str, Child]) -> None:
        self.ports: list[int] = []
        self.links: list[Link] = []
        self.primary = 0
        self.promotions = 0
        self._directory = directory
        self._children = children
        self._place = Path(tempfile.mkdtemp(prefix="rankd-pg-", dir="/tmp"))
        self._binaries: Path

    @property
    def url(self) -> str:
        """Whichever takes writes, without a link between."""
        return url_of(self.ports)

    def data(self, number: int) -> Path:
        return self._place / NAMES[number]

    async def start(self) -> None:
        """Both; returns when commits wait for the standby."""
        self.ports = free_ports(2)
        self.links = [Link(port) for port in reversed(self.ports)]
        for link in self.links:
            await link.start()
        if os.geteuid() == 0:
            shutil.chown(self._place, "nobody", "nogroup")
        self._binaries = _binaries(self._place)
        make = ["-U", "rankd", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        await asyncio.to_thread(self._run, "initdb", "-D", self.data(0), *make)
        for number, name in enumerate(NAMES):
            settings = SETTINGS | MORE | {"port": str(self.ports[number])}
            options = [f"-c{key}={value}" for key, value in settings.items()]
            where = ["-D", str(self.data(number)), f"-cunix_socket_directories={self._place}"]
            command = [str(self._binaries / "postgres"), *where, *options]
            self._children[name] = Server(name, command, self._directory / f"{name}.log", self.data(number))
        await self._children[NAMES[0]].start()
        await self._until("SELECT NOT pg_is_in_recovery()", self.ports[0])
        await self._add_standby()

    async def promote(self, away_s: float) -> None:
        """The primary is killed and stays away; the standby takes its place, and later gets a standby of its own.

        It has all that was acknowledged, since each commit waited for it, whether it runs at this moment or not.
        """
        old, new = self.primary, 1 - self.primary
        server = self._children[NAMES[old]]
        await server.kill()
        await server.all_dead()
        await self._until("SELECT pg_promote(true, 60)", self.ports[new])
        self.primary = new
        self.promotions += 1
        await asyncio.sleep(away_s)
        await self._add_standby()

    async def _add_standby(self) -> None:
        """A new copy of the primary follows it, by its link. Then commits wait for it."""
        new, primary = 1 - self.primary, self.ports[self.primary]
        data = self.data(new)
        shutil.rmtree(data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary} user=rankd"
        words = ["-D", data, "-X", "stream", "-c", "fast", "--no-sync", "-d", source]
        await asyncio.to_thread(self._run, "pg_basebackup", *words)
        follow = f"host=127.0.0.1 port={self.links[new].port} user=rankd application_name={STANDBY}"
        (data / "postgresql.auto.conf").write_text(f"primary_conninfo = '{follow}'\n")
        (data / "standby.signal").touch()
        await self._children[NAMES[new]].again()
        is_there = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'"
        await self._until(is_there, primary)
        await self._until(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'", primary)
        await self._until("SELECT pg_reload_conf()", primary)
        await self._until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'", primary)

    def _run(self, program: str, *words: str | Path) -> None:
        subprocess.run([self._binaries / program, *words], check=True, capture_output=True, **_user())

    async def _until(self, statement: str, port: int) -> None:
        """Again and again until it is done, and true if it tells something."""
        end = time.monotonic() + START_S
        while not await asyncio.to_thread(_is_done, statement, port):
            assert time.monotonic() < end, f"port {port}: {statement}"
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Both, the standby first: the primary's end waits for it."""
        for number in (1 - self.primary, self.primary):
            if NAMES[number] in self._children and self._children[NAMES[number]].is_started:
                await self._children[NAMES[number]].stop()
        for link in self.links:
            await link.stop()
        shutil.rmtree(self._place, ignore_errors=True)


def _is_done(statement: str, port: int) -> bool:
    with suppress(psycopg.Error), psycopg.connect(url_of([port]), connect_timeout=2, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.description is None or cursor.fetchone()[0]
    return False


def url_of(ports: list[int]) -> str:
    """The database at whichever port takes writes; at one port, whatever it is."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://rankd@{hosts}/postgres" + ("?target_session_attrs=read-write" if len(ports) > 1 else "")
