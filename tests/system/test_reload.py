"""``rankd reload`` and SIGHUP, by real processes; what survives a kill in between."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from system.client import connected
from watch import PATIENCE_S

from rankd.store.schema.migration import shipped

SERVICES = ("intake", "prioritizer", "scheduler")


@pytest.fixture
def config(tmp_path):
    """A copy of the configuration that ships."""
    return shutil.copytree(shipped("config"), tmp_path / "etc")


def edit(config, old, new, file="rankd.toml"):
    text = (config / file).read_text()
    assert old in text
    (config / file).write_text(text.replace(old, new))


def numbers(machine):
    """Which configuration each service goes by."""
    shown = machine.diag()
    parts = {"intake": shown, "prioritizer": shown.get("prioritizer"), "scheduler": shown.get("scheduler")}
    return {name: ((part or {}).get("configuration") or {}).get("number") for name, part in parts.items()}


def until_all_go_by(machine, number):
    """Each look is a process of its own."""
    for _ in range(100):
        if set(numbers(machine).values()) == {number}:
            return
    raise AssertionError(numbers(machine))


async def test_a_reload_a_refused_one_and_one_by_a_signal(machine, config):
    machine.start("--no-local-agent", "--config", str(config))
    async with connected(machine.up["nats"], machine.services) as client:
        ranking = await client.connection.subscribe("rankd.v1.event.ranking")
        for user in ("alice", "bob"):
            await client.submit(user, {"command": ["true"]}, {"command": ["true"], "qos": "low"})
        while json.loads((await ranking.next_msg(timeout=PATIENCE_S)).data)["jobs"] < 4:
            pass
        events = await client.connection.subscribe("rankd.v1.event.configuration")
        edit(config, "age = 1000", "age = 2000")
        edit(config, "qos = 5000", "qos = -5000")
        said = machine.rankd("reload", "--dry-run")
        assert said.startswith("a reload would change:\n  priority.weights.age 1000 -> 2000\n  priority.weights.qos")
        assert "4 of 4 pending jobs would change their rank" in said
        assert machine.rankd("config", "history").count("\n") == 1
        assert machine.rankd("reload", "--admin") == (
            "configuration 2 is in force\n  priority.weights.age 1000 -> 2000\n  priority.weights.qos 5000 -> -5000\n"
        )
        assert machine.rankd("reload", "--admin") == "configuration 2 is in force; the files say the same\n"
        edit(config, "age = 2000", "aeg = 2000")
        edit(config, "shares: 1", "shares: much", "accounts.yaml")
        refused = machine.rankd_fails("reload", "--admin", status=2)
        assert "unknown factor 'aeg'" in refused
        assert "accounts.yaml: accounts[0].shares" in refused
        edit(config, "aeg = 2000", "age = 3000")
        edit(config, "shares: much", "shares: 1", "accounts.yaml")
        os.kill(machine.up["pid"], signal.SIGHUP)
        while json.loads((await events.next_msg(timeout=PATIENCE_S)).data)["events"][-1]["id"] < 3:
            pass
    until_all_go_by(machine, 3)
    history = machine.rankd("config", "history").splitlines()
    assert [line.split()[0] for line in history if not line.startswith(" ")] == ["3", "2", "1"]
    assert "     priority.weights.age 2000 -> 3000" in history
    assert [line for line in machine.rankd("config", "history", "--diff", "3").splitlines() if line[0] in "+-"] == [
        "--- rankd.toml (2)",
        "+++ rankd.toml (3)",
        "-age = 2000",
        "+age = 3000",
    ]
    listed = json.loads(machine.rankd("config", "history", "--json", "--limit", "2"))["configurations"]
    assert [(one["number"], one["event"], one["directory"]) for one in listed] == [
        (3, "reloaded", str(config)),
        (2, "reloaded", str(config)),
    ]
    assert "there is no configuration 9" in machine.rankd_fails("config", "history", "--diff", "9")


async def test_whoever_is_killed_goes_by_what_was_recorded_last(machine, config):
    machine.start("--no-local-agent", "--config", str(config))
    async with connected(machine.up["nats"], machine.services) as client:
        for number, killed in enumerate(SERVICES, start=2):
            edit(config, f"age = {number - 1}000", f"age = {number}000")
            assert (await client.ask("rankd.v1.admin.root.config.reload", {}))["number"] == number
            machine.kill(killed)  # perhaps it has not taken it yet
            machine.rankd("submit", "--", "true")  # asks again until somebody answers
            until_all_go_by(machine, number)
    [row] = machine.rows("SELECT weights FROM generation WHERE kind = 'full' ORDER BY number DESC LIMIT 1")
    assert json.loads(row["weights"])["age"] == 4000
