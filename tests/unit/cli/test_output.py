"""A command's output arrives whole, however slowly it is read, or its exit status is not 0."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

SIZE = 2**20
PRINTS = f"""
import sys
from rankd.cli import main, table

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


@pytest.mark.parametrize("words", [["list", "--help"], ["--version"]])
def test_output_to_a_full_disk_does_not_end_with_0(words):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run([sys.executable, "-m", "rankd", *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode != 0
    assert b"No space left" in done.stderr
