"""``rankd up`` forks its services from one process, and goes on without it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from watch import PATIENCE_S, gone_within

from rankd.plugin.interpreter import python_command


def children(parent: int) -> set[int]:
    stats = {file.parent.name: file.read_text() for file in Path("/proc").glob("[0-9]*/stat") if file.exists()}
    return {int(pid) for pid, text in stats.items() if int(text.rpartition(")")[2].split()[1]) == parent}


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().removesuffix("\0").split("\0")


def nursery_of(up: dict) -> int:
    [nursery] = children(up["pid"]) - set(up["pids"].values())
    return nursery


def test_services_show_their_commands_and_are_children_of_up(machine):
    machine.start("--simulate", "1")
    up = machine.up
    assert set(up["pids"].values()) < children(up["pid"])
    for name in ("intake", "prioritizer", "scheduler", "gateway", "agent"):
        assert command_of(up["pids"][name])[:5] == python_command("rankd", name)
    assert "--simulate" in command_of(up["pids"]["agent-sim"])
    assert command_of(nursery_of(up)) == [sys.executable, "-P", "-m", "rankd", "up", "(the nursery)"]


def test_a_killed_service_is_forked_again(machine):
    machine.start("--name", "here")
    before = machine.up["pids"]["scheduler"]
    nursery = nursery_of(machine.up)
    machine.kill("scheduler")
    machine.rankd("submit", "--wait", "--", "true")
    assert machine.up["pids"]["scheduler"] != before
    assert nursery_of(machine.up) == nursery


def test_a_killed_nursery_harms_no_service_and_the_next_one_is_executed(machine):
    machine.start("--name", "here")
    before = machine.up["pids"]
    os.kill(nursery_of(machine.up), signal.SIGKILL)
    machine.rankd("submit", "--wait", "--", "true")
    assert machine.up["pids"] == before
    for name in ("scheduler", "agent", "prioritizer"):  # a job needs them all
        machine.kill(name)
    machine.rankd("submit", "--wait", "--", "true")
    after = machine.up
    same = {name for name, pid in after["pids"].items() if pid == before[name]}
    assert same == {"nats", "gateway", "intake", "forecaster"}
    assert children(after["pid"]) == set(after["pids"].values())
    assert machine.stop() == 0


def test_nothing_is_left_when_up_is_killed(machine):
    machine.start("--simulate", "1", "--no-local-agent")
    everything = children(machine.up["pid"])
    assert len(everything) == len(machine.up["pids"]) + 1
    machine.stop(signal.SIGKILL)
    assert all(gone_within(pid, PATIENCE_S) for pid in everything)
