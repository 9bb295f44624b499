"""A job that fills the file system of its output harms itself: the agent goes on, and so do jobs elsewhere."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")

ROOM = "2m"


@pytest.fixture
def small(tmp_path):
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_job_that_fills_its_outputs_file_system_fails_alone(machine, small, tmp_path):
    machine.start("--name", "here")
    fills, says, other = small / "out", tmp_path / "says", tmp_path / "other"
    machine.rankd(
        "submit", "--wait", "-o", str(fills), "-e", str(says), "--", "head", "-c", "8M", "/dev/zero", status=1
    )
    assert "No space left on device" in says.read_text()
    assert "with exit status 1" in machine.rankd("why", "1")
    machine.rankd("submit", "--wait", "-o", str(small / "late"), "--", "sh", "-c", "exit 0")
    machine.rankd("submit", "--wait", "-o", str(other), "--", "echo", "here")
    assert other.read_text() == "here\n"
    assert "ready" in machine.rankd("health", "agent-here")
    states = machine.rows("SELECT id, state FROM jobs ORDER BY id")
    assert [row["state"] for row in states] == ["failed", "completed", "completed"], json.dumps(states)
