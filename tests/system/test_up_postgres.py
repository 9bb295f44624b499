"""``rankd up`` with the records in PostgreSQL: a server that it runs itself, and one that runs already."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from postgres_server import server
from system.conftest import RANKD, Machine
from watch import PATIENCE_S, gone_within

UNPRIVILEGED = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""An ordinary user who can also read this repository, which may be root's: PostgreSQL does not run as root."""


class Ordinary(Machine):
    """A ``rankd up`` of an ordinary user, whoever runs the tests."""

    words = (*UNPRIVILEGED, *RANKD) if os.geteuid() == 0 else tuple(RANKD)


@pytest.fixture
def ordinary():
    place = Path(tempfile.mkdtemp(prefix="rankd-up-pg-", dir="/tmp"))  # short, and open to every user
    if os.geteuid() == 0:
        shutil.chown(place, 65534, 65534)
    machine = Ordinary(place / "state")
    yield machine
    machine.end()
    shutil.rmtree(place, ignore_errors=True)


def states(machine):
    return {row["id"]: row["state"] for row in json.loads(machine.rankd("db", "sql", "--json", "SELECT * FROM job"))}


def run_job(machine, *words):
    machine.rankd("submit", "--wait", "--", *(words or ("true",)))


def test_an_embedded_server_keeps_the_records_over_a_kill_and_ends_with_up(ordinary):
    ordinary.start("--db", "postgresql")
    run_job(ordinary)
    pid = ordinary.up["pids"]["postgresql"]
    ordinary.stop(signal.SIGKILL)
    assert gone_within(pid, PATIENCE_S), "the server outlives a killed `rankd up`"
    said = ordinary.rankd_fails("up", "--dir", str(ordinary.directory), status=2)
    assert "are in postgresql: give --db postgresql" in said

    ordinary.start("--db", "postgresql")
    ordinary.kill("postgresql")  # as if the server crashed: it is started again, and nothing is lost
    run_job(ordinary)
    assert states(ordinary) == {1: "completed", 2: "completed"}
    pid = ordinary.up["pids"]["postgresql"]
    assert ordinary.stop() == 0
    assert gone_within(pid, 0)
    assert not (ordinary.directory / "postgresql" / "data" / "postmaster.pid").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_told_what_to_do(machine):
    said = machine.rankd_fails("up", "--db", "postgresql", status=2)
    assert "PostgreSQL does not run as root" in said
    assert "give --db postgresql://USER@HOST/NAME" in said
    assert not (machine.directory / "postgresql").exists()


def test_a_server_that_runs_already_and_its_password_is_in_no_command_line(machine):
    name = server().make()
    url = server().url(name).replace("rankd@", "rankd:secret-word@")
    machine.start("--db", url)
    run_job(machine, "sh", "-c", '! env | grep -q "secret-wor[d]"')
    with psycopg.connect(server().url(name)) as connection:
        assert connection.execute("SELECT id, state FROM job").fetchall() == [(1, "completed")]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in machine.up["pids"].values()]
    assert len(lines) > 4
    assert b"secret-word" not in b"".join(lines)
    assert "secret-word" not in (machine.directory / "up.json").read_text()
    assert "secret-word" not in (machine.directory / "database").read_text()
    assert machine.stop() == 0
    assert not (machine.directory / "rankd.db").exists()
    subprocess.run(["test", "!", "-e", machine.directory.parent / ".rankd"], check=True)
    server().drop(name)
