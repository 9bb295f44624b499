"""A command's output arrives whole, however slowly it is read, or its exit status is not 0."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from unit.store.sample_database import make_database

from rankd.cli.main import COMMANDS as COMMANDS_BY_NAME

SIZE = 2**20
PRINTS = f"""
import sys
from rankd.cli import main
from rankd.cli.common import table

def run(argv):
    table.print_json(["x" * {SIZE}])
    print("the last line")
    return 0

main._run = run
sys.exit(main.main([]))
"""
EXPECTED = f'[\n  "{"x" * SIZE}"\n]\nthe last line\n'.encode()


def pipe():
    return os.pipe()


def pair():
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def started(output: int, unbuffered: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PRINTS],
        stdout=output,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("made", [pipe, pair])
def test_output_that_is_read_slowly_arrives_whole(made, blocking, unbuffered):
    ours, theirs = made()
    os.set_blocking(theirs, blocking)
    process = started(theirs, unbuffered)
    os.close(theirs)
    read = b""
    while piece := os.read(ours, 4096):
        read += piece
    os.close(ours)
    _, log = process.communicate()
    assert (process.returncode, log) == (0, b"")
    assert read == EXPECTED


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_whose_reader_goes_midway_does_not_end_with_0(unbuffered):
    ours, theirs = pipe()
    os.set_blocking(theirs, False)
    process = started(theirs, unbuffered)
    os.close(theirs)
    assert os.read(ours, 4096)
    os.close(ours)
    process.communicate()
    assert process.returncode == 141


REASONS = {"full": "No space left on device", "closed": "it is closed"}

COMMANDS = [
    ["--help"],
    ["--version"],
    *([name, "--help"] for name in COMMANDS_BY_NAME),
    ["queue"],
    ["queue", "--json"],
    ["queue", "-o", "%i %u"],
    ["list"],
    ["prio"],
    ["prio", "-w"],
    ["why", "1"],
    ["show", "1"],
    ["history", "1"],
    ["acct"],
    ["nodes"],
    ["share"],
    ["queues"],
    ["class", "list"],
    ["config", "check"],
    ["submit", "--print-request", "--", "true"],
    ["db", "check"],
    ["db", "sql", "SELECT 1"],
    ["evaluate", "--lines", os.devnull],
    ["up", "--dir", "state"],
    ["demo"],
]
PRINTS_NOTHING = [["evaluate", "--lines", os.devnull]]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return make_database(tmp_path_factory.mktemp("output") / "rankd.db")


def lost(kind: str, words: list[str], directory: Path, database: Path) -> tuple[int, str]:
    """Exit status and errors of a command whose standard output is a full device, or closed."""
    closed = {"full": ">/dev/full", "closed": ">&-"}[kind]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "rankd", *words],
        stderr=subprocess.PIPE, text=True, check=False, cwd=directory, env=os.environ | {"RANKD_DB": str(database)},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("kind", REASONS)
def test_output_that_cannot_be_written_ends_every_command_with_4_and_a_line(kind, tmp_path, database):
    line = f"rankd: the output could not be written ({REASONS[kind]})"
    wrong = []
    for words in COMMANDS:
        status, errors = lost(kind, words, tmp_path, database)
        expected = (0, "") if words in PRINTS_NOTHING else (4, line)
        if (status, (errors.splitlines() or [""])[-1]) != expected or "Traceback" in errors:
            wrong.append((words, status, errors))
    assert not wrong


@pytest.mark.parametrize("errors", ["2>/dev/full", "2>&-"])
def test_errors_that_cannot_be_written_change_no_exit_status(errors, database):
    command = [sys.executable, "-m", "rankd", "show", "--db", str(database), "99"]
    done = subprocess.run(["sh", "-c", f'exec "$@" {errors}', "sh", *command], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_closed_standard_input_is_an_error_of_one_line(tmp_path):
    for words, status in ((["evaluate", "-"], 2), (["submit", "--print-request", "--file", "-"], 2)):
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "rankd", *words],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1)
        assert "Bad file descriptor" in done.stderr
