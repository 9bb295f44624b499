"""Real processes, started and stopped as a user would: by the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from watch import PATIENCE_S

from rankd.store.engine.driver import sqlite3

RANKD = [str(Path(sys.executable).with_name("rankd"))]


class Machine:
    """One ``rankd up`` in a directory of its own. ``words``: how a command begins."""

    words: Sequence[str] = RANKD

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str, rights: Sequence[str] = ("--run-as", "agent"), has_page: bool = False) -> str:
        """Returns what it says until it is up. ``rights``: by default, jobs of all users run here."""
        page = [] if has_page else ["--no-web"]  # most tests need none, and each starts a process for it
        command = [*self.words, "up", "--dir", str(self.directory), *options, *rights, *page]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.directory.parent
        )
        said = []
        for line in self._process.stdout:
            said.append(line)
            if line.startswith("rankd is up"):
                return "".join(said)
        raise AssertionError("rankd up ended:\n" + "".join(said))

    @property
    def up(self) -> dict[str, Any]:
        return json.loads((self.directory / "up.json").read_text())

    @property
    def services(self) -> Path | None:
        """The services' credentials, which reach every subject; None where the broker wants none."""
        return None if self.up["creds"] is None else self.directory / "auth" / "services.creds"

    def credentials(self, role: str, name: str) -> Path:
        """Credentials of a user or node, as its administrator writes them."""
        file = self.directory.parent / f"{role}-{name}.creds"
        self.rankd("auth", "creds", f"--{role}", name, "--out", str(file))
        return file

    def kill(self, service: str) -> None:
        """As a crash: SIGKILL."""
        os.kill(self.up["pids"][service], signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Its exit status."""
        self._process.send_signal(number)
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """What a user's SQL client shows."""
        connection = sqlite3.connect(self.directory / "rankd.db", timeout=PATIENCE_S)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query, values).fetchall()]
        finally:
            connection.close()

    def rankd_all(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command; all that it says."""
        return self._run(*words, status=status)

    def rankd(self, *words: str, status: int = 0) -> str:
        """Run a command; its output."""
        return self._run(*words, status=status).stdout

    def diag(self) -> dict:
        """What the services say of themselves; the exit status tells only whether all of them are ready."""
        place = {"RANKD_DIR": str(self.directory)}
        done = subprocess.run([*RANKD, "diag", "--json"], capture_output=True, text=True, check=False,
                              env=os.environ | place, cwd=self.directory.parent)  # fmt: skip
        return json.loads(done.stdout or "{}")

    def rankd_fails(self, *words: str, status: int = 1) -> str:
        """Run a command that is refused; what it says of that."""
        return self._run(*words, status=status).stderr

    def _run(self, *words: str, status: int) -> subprocess.CompletedProcess[str]:
        place = {"RANKD_DIR": str(self.directory)}
        if (credentials := self.directory / "auth" / "admin.creds").exists():
            place["RANKD_CREDS"] = str(credentials)  # for commands that name the broker
        done = subprocess.run(
            [*self.words, *words],
            capture_output=True,
            check=False,
            text=True,
            env=os.environ | place,
            cwd=self.directory.parent,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def end(self) -> None:
        """Whatever the test left."""
        if self._process is not None and self._process.poll() is None:
            self.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "state")
    yield machine
    machine.end()


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One for all tests of a file, which starts it."""
    machine = Machine(tmp_path_factory.mktemp("shared") / "state")
    yield machine
    machine.end()
