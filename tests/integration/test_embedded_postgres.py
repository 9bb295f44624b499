"""What a killed ``rankd up`` leaves of its embedded server is ended, and nothing else."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from postgres_server import SETTINGS, _user, server
from watch import PATIENCE_S

from rankd.core.errors import Refused, Unavailable
from rankd.services.up import postgres


@pytest.fixture
def orphan():
    """A running server that nobody looks after, and its data."""
    directory = Path(tempfile.mkdtemp(prefix="rankd-orphan-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody", "nogroup")
    data, programs, own = directory / "data", server()._binaries, _user()
    make = [programs / "initdb", "-D", data, "-U", "rankd", "-A", "trust", "--no-locale", "--no-sync"]
    subprocess.run(make, check=True, capture_output=True, **own)
    command = [programs / "postgres", "-D", data, f"-cunix_socket_directories={directory}"]
    command += [f"-c{name}={value}" for name, value in SETTINGS.items()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **own)
    for line in process.stderr:
        if "ready to accept connections" in line:
            break
    yield process, data
    process.kill()
    process.wait()
    process.stderr.close()
    shutil.rmtree(directory)


def test_a_server_that_outlived_a_killed_up_is_ended_with_its_clients(orphan):
    process, data = orphan
    with psycopg.connect(postgres.url_in(data.parent, "postgres")) as client:
        children = postgres._processes(data)
        assert process.pid in children
        assert len(children) > 3
        postgres.end_server(data)
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    assert process.wait(PATIENCE_S) == 0, "it did not stop in order"
    assert postgres._processes(data) == set()


def test_what_is_left_of_a_crashed_server_ends_before_another_starts(orphan):
    process, data = orphan
    children = postgres._processes(data)
    assert process.pid in children
    process.kill()
    postgres.end_server(data)
    assert postgres._processes(data) == set()


def test_a_stale_pid_of_another_program_is_left_alone(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    other = subprocess.Popen(["sleep", "1000"], cwd=data)
    try:
        (data / "postmaster.pid").write_text(f"{other.pid}\n{data}\n")
        postgres.end_server(data)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path):
    with pytest.raises(Refused, match="too long for PostgreSQL's socket"):
        postgres.PostgresServer(tmp_path / ("d" * 100))


def test_data_of_another_version_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(Unavailable, match="PostgreSQL 16 is not installed, and the data in the directory need it"):
        postgres.PostgresServer(tmp_path)
