"""An agent with no more of root's rights than its unit and its container give it: needs root, to take them away."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from system.conftest import RANKD, Machine

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to take away"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv"),
]

UNIT = Path(__file__).parents[2] / "config" / "systemd" / "rankd-agent.service"
CAPABILITIES = re.search(r"^CapabilityBoundingSet=(.+)$", UNIT.read_text(), re.MULTILINE)[1].lower().split()


@pytest.fixture
def confined(monkeypatch):
    """A ``rankd up --share`` whose processes have these capabilities only, and can't get others."""
    bounding = ",".join(["-all", *(f"+{name.removeprefix('cap_')}" for name in CAPABILITIES)])
    words = ["setpriv", "--no-new-privs", "--bounding-set", bounding, *RANKD]
    monkeypatch.setattr("system.conftest.Machine.words", words)
    with tempfile.TemporaryDirectory(prefix="rankd-confined-") as base:
        Path(base).chmod(0o755)
        if closed := [str(path) for path in Path(base).parents if not path.stat().st_mode & 0o001]:
            pytest.skip(f"other users can't pass through {closed}")
        machine = Machine(Path(base) / "state")
        machine.start("--name", "here", rights=())
        yield machine
        machine.end()


def test_jobs_run_as_their_users_and_end_when_they_are_cancelled(confined):
    script = "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status"
    confined.rankd("submit", "--as", "daemon", "--wait", "--", "sh", "-c", script)
    [job] = confined.rows("SELECT id, state, stdout FROM job")
    assert job["state"] == "completed"
    output = Path(job["stdout"])
    uid, effective, no_new = output.read_text().splitlines()
    assert (uid, int(effective.split()[1], 16), no_new.split()[1]) == ("1", 0, "1")
    assert output.stat().st_uid == 1
    confined.rankd("submit", "--as", "daemon", "--", "sleep", "3600")
    while confined.rows("SELECT state FROM job WHERE id = 2") != [{"state": "running"}]:
        time.sleep(0.05)
    confined.rankd("cancel", "--as", "daemon", "2")
    while confined.rows("SELECT state FROM job WHERE id = 2") != [{"state": "cancelled"}]:
        time.sleep(0.05)
    assert confined.stop() == 0


def test_an_agent_has_only_those_rights(confined):
    status = Path(f"/proc/{confined.up['pids']['agent']}/status").read_text()
    mask = int(re.search(r"^CapEff:\s+([0-9a-f]+)$", status, re.MULTILINE)[1], 16)
    assert mask.bit_count() == len(CAPABILITIES)
