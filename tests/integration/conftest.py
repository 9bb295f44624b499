"""A real nats-server per test: every subject of rankd has the same prefix, and a server starts in 50 ms."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import server
from watch import PATIENCE_S

from rankd.config import plugin
from rankd.store.engine.postgres import PostgresDatabase
from rankd.store.schema.migration import upgrade


class Broker:
    """A nats-server with JetStream on 127.0.0.1, which can be killed and started again on its port and store.

    ``more``: further lines of its configuration.
    """

    def __init__(self, directory: Path, more: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.more = more
        self._configuration = directory / "nats.conf"
        self._directory = directory
        self._port = -1  # the server's way to say: any free one
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns once it answers."""
        store = self._directory / "jetstream"
        self._configuration.write_text(
            f'host: 127.0.0.1\nport: {self._port}\njetstream {{ store_dir: "{store}", sync_interval: always }}\n'
            f"{self.more}\n"
        )
        self.launch()

    def launch(self) -> None:
        """Start the server with its configuration. Returns once it answers."""
        server = Path(sys.executable).with_name("nats-server")
        self._process = subprocess.Popen(
            [server, "-c", self._configuration], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        if not ready.wait(PATIENCE_S):
            raise RuntimeError("nats-server did not start")

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        """Its log must be read to the end, or the server blocks."""
        for line in process.stderr:
            if found := re.search(r"Listening for client connections on \S+:(\d+)", line):
                self._port = int(found.group(1))
            if "Server is ready" in line:
                ready.set()
        process.stderr.close()

    def stall(self) -> None:
        """It stands still, its sockets open, until :meth:`go_on`."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """As if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a crash: SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reader.join()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    server = Broker(tmp_path / "broker")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def nats_url(broker: Broker) -> str:
    return broker.url


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], Path]]:
    """Install a package for the test, of its module's name, its text and its entry points; returns its directory."""

    def add(module: str, text: str, entries: str) -> Path:
        package = tmp_path / "site" / module
        metadata = package / f"{module}-1.dist-info"
        metadata.mkdir(parents=True)
        (package / f"{module}.py").write_text(text)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(entries)
        monkeypatch.syspath_prepend(package)
        forget()
        return package

    def forget() -> None:
        plugin.look_again()

    yield add
    forget()


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a new database of the PostgreSQL server."""
    name = server().make()
    yield server().url(name)
    server().drop(name)


@pytest.fixture
async def database(url: str, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    """That database with rankd's tables, as a process has it."""
    async with PostgresDatabase(url, tmp_path) as opened:
        await upgrade(opened)
        yield opened
