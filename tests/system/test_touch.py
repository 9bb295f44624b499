"""Signals and time limits of running jobs, with real processes of which some are killed."""

from __future__ import annotations

import json
import re
import shutil
import time

import pytest
from system.client import connected
from system.test_two_agents import another_agent
from watch import PATIENCE_S, comes

from rankd.store.schema.migration import shipped

ALICE = ("--as", "alice")
COUNTS = "trap 'echo got >>{0}' USR1; echo up >>{0}; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def config(shared_machine):
    return shutil.copytree(shipped("config"), shared_machine.directory.with_name("config"))


@pytest.fixture(scope="module")
def site(shared_machine, config):
    shared_machine.start("--config", str(config))
    return shared_machine


def until(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(site) -> bool:
    """Whether the intake is there again."""
    try:
        site.rankd("cancel", *ALICE, "--me", "--dry-run")
    except AssertionError:
        return False
    return True


def runs(site, *words, command=("sleep", "1000")):
    job = int(site.rankd("submit", *ALICE, "--parsable", *words, "--", *command))
    until(lambda: state(site, job) == "running")
    return job


def state(site, job):
    [row] = site.rows("SELECT state FROM job WHERE id = ?", job)
    return row["state"]


def events(site, job, event):
    rows = site.rows("SELECT actor, detail FROM job_event WHERE job_id = ? AND event = ? ORDER BY id", job, event)
    return [(row["actor"], json.loads(row["detail"])) for row in rows]


def test_a_signal_comes_once_also_if_services_are_killed(site, tmp_path):
    seen = tmp_path / "seen"
    job = runs(site, "-t", "60", command=("sh", "-c", COUNTS.format(seen)))
    until(lambda: seen.exists() and seen.read_text() == "up\n")
    assert site.rankd("signal", *ALICE, str(job), "USR1") == ""
    for service in ("intake", "scheduler", "nats"):
        site.kill(service)
    until(lambda: seen.read_text() == "up\ngot\n")
    until(lambda: answers(site))
    site.rankd("cancel", *ALICE, "--signal", "10", str(job))
    until(lambda: seen.read_text() == "up\ngot\ngot\n")
    assert [detail["signal"] for _, detail in events(site, job, "signal")] == ["USR1", "USR1"]
    assert "belongs to 'alice'" in site.rankd_fails("signal", "--as", "bob", str(job), "KILL")
    site.rankd("signal", *ALICE, "--me", "KILL")
    until(lambda: state(site, job) == "failed")
    assert "only running jobs get signals" in site.rankd_fails("signal", *ALICE, str(job), "USR1")
    site.rankd_fails("signal", *ALICE, str(job), "NONSENSE", status=2)
    assert seen.read_text() == "up\ngot\ngot\n"


def test_a_running_job_has_its_new_time_limit(site):
    job = runs(site, "-t", "60")
    site.rankd("update", *ALICE, str(job), "--time=-30m")
    assert "administrators" in site.rankd_fails("update", *ALICE, str(job), "-t", "+1h")
    site.rankd("update", "--admin", "--as", "root", str(job), "-t", "+1h")
    assert "only its time limit" in site.rankd_fails("update", *ALICE, str(job), "-J", "other")
    [row] = site.rows("SELECT time_limit_s FROM job WHERE id = ?", job)
    assert row["time_limit_s"] == 5400.0
    changes = [(who, told["time_limit_s"]) for who, told in events(site, job, "update")]
    assert changes == [
        ("alice", {"before": 3600.0, "after": 1800.0}),
        ("root", {"before": 1800.0, "after": 5400.0}),
    ]
    site.rankd("update", *ALICE, str(job), "-t", "1s")
    until(lambda: state(site, job) == "timeout")


async def test_a_prolog_that_fails_on_one_of_two_nodes_drains_that_one_and_the_job_waits_again(site, config, tmp_path):
    told, mended = tmp_path / "told", tmp_path / "mended"
    for name, script in (("prolog", f"[ $RANKD_NODE_NAME = first ] || [ -e {mended} ] || exit 4"), ("epilog", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $SLURM_JOB_ID $RANKD_NODE_NAME >> {told}\n{script}\n")
        (tmp_path / name).chmod(0o755)
    settings = config / "rankd.toml"
    hooks = "".join(f'{name} = "{tmp_path}/{name}"\n' for name in ("prolog", "epilog"))
    before = re.sub(r"^(prolog|epilog) = .*\n", "", settings.read_text(), flags=re.MULTILINE)
    settings.write_text(before.replace("\n[node]\n", f"\n[node]\n{hooks}", 1))
    site.rankd("reload", "--admin")
    site.rankd("node", "drain", "--admin", *(node["name"] for node in site.rows("SELECT name FROM node")))
    async with (
        connected(site.up["nats"], site.services) as client,
        another_agent(site, client, "first"),
        another_agent(site, client, "second"),
    ):
        job = int(site.rankd("submit", *ALICE, "--parsable", "-N", "2", "--", "true"))
        comes(lambda: events(site, job, "allocate"))
        comes(lambda: told.exists() and f"prolog {job} second" in told.read_text())
        comes(lambda: events(site, job, "requeue"))
        nodes = "SELECT name, drained_by, drain_reason FROM node WHERE name IN ('first', 'second') ORDER BY name"
        first, second = site.rows(nodes)
        assert (first["drain_reason"], second["drain_reason"]) == (None, f"prolog {tmp_path}/prolog ended with 4")
        assert state(site, job) == "pending"
        mended.touch()
        site.rankd("node", "resume", "--admin", "second")
        comes(lambda: state(site, job) == "completed")
    lines = told.read_text().splitlines()
    for node in ("first", "second"):
        of_node = [line.split()[0] for line in lines if line.endswith(f" {job} {node}")]
        assert of_node == ["prolog", "epilog"] * 2, node
