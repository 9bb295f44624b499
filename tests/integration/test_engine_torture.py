"""A short form of ``make torture``: writers, checkpoints and readers are killed; the file stays whole."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "engine_torture" / "run.py"


def torture(*words):
    return subprocess.run([sys.executable, RUN, *words], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("library", [(), ("--standard",)])
def test_whatever_is_killed_no_acknowledged_commit_is_lost(library):
    """With the wheel's SQLite, and with the standard library's and the lock around checkpoints."""
    done = torture("40", "7", *library)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "whole after 40 kills" in done.stdout


def test_the_checks_find_a_file_whose_writers_lose_their_locks():
    done = torture("400", "7", "--broken")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DAMAGED" in done.stdout
