"""Whose a process on a device is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankd.services.agent.device_owner import FIRST_NAMESPACE, Owner, Owners, sees_all_processes
from rankd.services.agent.leftover import STATE_VARIABLE
from rankd.services.keeper.cgroup_layout import tag_of

STATE = Path("/var/lib/rankd-agent")


@pytest.fixture
def process(tmp_path):
    """Writes what /proc says about process 7."""
    directory = tmp_path / "7"
    directory.mkdir()

    def write(group: str, **variables: str) -> Path:
        (directory / "cgroup").write_text(group)
        content = "".join(f"{name}={value}\0" for name, value in variables.items())
        (directory / "environ").write_text(content)
        return tmp_path

    return write


ME = Owners(STATE).of(os.getpid()).user


@pytest.mark.parametrize(
    "group",
    ["4:memory:/rankd-{tag}-17\n1:cpu:/\n", "0::/unit.service/rankd-{tag}-17\n", "0::/rankd-{tag}-17/below\n"],
)
def test_a_process_in_a_jobs_group_is_the_jobs(process, group):
    proc = process(group.format(tag=tag_of(STATE)))
    assert Owners(STATE, proc).of(7) == Owner(7, 17, ME)


def test_a_group_of_another_agent_or_of_another_name_is_foreign(process):
    for group in ("/rankd-00000000-17", f"/rankd-{tag_of(STATE)}-probe-17", f"/x{tag_of(STATE)}-17"):
        assert Owners(STATE, process(f"0::{group}\n")).of(7) == Owner(7, None, ME)


def test_a_process_without_a_group_is_known_by_its_environment(process):
    proc = process("0::/\n", **{STATE_VARIABLE: str(STATE), "RANKD_ALLOCATION_ID": "17"})
    assert Owners(STATE, proc).of(7) == Owner(7, 17, ME)
    proc = process("0::/\n", **{STATE_VARIABLE: "/other", "RANKD_ALLOCATION_ID": "17"})
    assert Owners(STATE, proc).of(7) == Owner(7, None, ME)


def test_a_process_that_has_ended_is_nobodys(tmp_path):
    assert Owners(STATE, tmp_path).of(7) is None


def test_a_process_sees_all_others_in_the_first_namespace_only(tmp_path):
    assert not sees_all_processes(tmp_path)
    here = Path("/proc/self/ns/pid").stat().st_ino
    assert sees_all_processes() == (here == FIRST_NAMESPACE)
