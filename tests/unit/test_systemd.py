"""The units of systemd: it can read them, their commands exist, and they take no more rights than they need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rankd.cli.main import _parser

UNITS = sorted((Path(__file__).parents[2] / "config" / "systemd").glob("*.service"))
NAMES = [unit.name for unit in UNITS]
MOST_EXPOSED = {
    "rankd.service": 2.0,
    "rankd-notifier.service": 2.0,
    "rankd-web.service": 2.0,
    "rankd-agent.service": 7.0,
}
"""By `systemd-analyze security`, from 0 to 10. Jobs inherit what the agent lacks, so it keeps more than the head."""
NEWER = "Unknown key 'DelegateSubgroup'"
"""Systemd before version 254 says so, and ignores the line."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")


def lines(name: str) -> list[str]:
    text = (UNITS[0].parent / name).read_text().replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def values(name: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in lines(name) if line.startswith(f"{key}=")]


@pytest.fixture
def units(tmp_path):
    """The same files, with a program that is there."""
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/rankd/bin/rankd", sys.executable))
    return tmp_path


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_systemd_reads_each_line(units, name):
    done = analyzed("verify", "--man=no", str(units / name))
    complaints = [line for line in done.stderr.splitlines() if str(units) in line and NEWER not in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_a_service_is_exposed_no_more_than_it_has_to_be(units, name):
    done = analyzed("security", "--offline=true", "--no-pager", str(units / name))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than version 250")
    found = re.search(rf"exposure level for {re.escape(name)}: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSED[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_one_that_exists(name):
    [command] = values(name, "ExecStart")
    program, *words = command.split()
    assert program == "/opt/rankd/bin/rankd"
    assert _parser(words[0]).parse_args(words).run


@pytest.mark.parametrize("name", NAMES)
def test_no_program_gets_more_rights_later(name):
    assert values(name, "NoNewPrivileges") == ["yes"]


def test_the_head_has_no_capabilities_and_writes_in_its_directory_only():
    assert values("rankd.service", "CapabilityBoundingSet") == [""]
    assert values("rankd.service", "ProtectSystem") == ["strict"]
    assert values("rankd.service", "StateDirectory") == ["rankd"]
    assert values("rankd.service", "User") == ["rankd"]


def test_a_restart_of_the_agent_leaves_its_jobs_and_keeps_their_files():
    """A directory for temporary files of its own would go with it, and homes are where jobs work."""
    assert values("rankd-agent.service", "KillMode") == ["process"]
    for key in ("PrivateTmp", "ProtectHome", "PrivateUsers", "RemoveIPC"):
        assert values("rankd-agent.service", key) in ([], ["no"])
