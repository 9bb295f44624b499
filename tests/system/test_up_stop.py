"""How ``rankd up`` ends: what becomes of the jobs, what it says before, and signals while it starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from itertools import cycle
from pathlib import Path

import pytest
from system.client import connected
from system.conftest import RANKD
from watch import PATIENCE_S, alive, appears, gone, gone_within

from rankd.store.schema.migration import shipped

UNTIL_TOLD = "echo $$ > {0}/pid; echo begun; read line < {0}/fifo; echo $line"
IGNORES_TERM = "trap 'echo told > {0}/told' TERM; echo $$ > {0}/pid; while :; do sleep 0.05; done"
MARK = "RANKD_TEST_MARK"


async def a_running_job(machine, script: str) -> tuple[int, int]:
    """The job's number, and its process."""
    place = machine.directory.parent
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sh", "-c", script.format(place)]})
        while b'"start"' not in (await events.next_msg(timeout=PATIENCE_S)).data:
            pass
    return job, int(await appears(place / "pid"))


def stop_reading(machine, *signals: signal.Signals) -> str:
    """Send the signals one after the other; what it says until its end."""
    for number in signals:
        machine._process.send_signal(number)
    said, _ = machine._process.communicate(timeout=PATIENCE_S)
    assert machine._process.returncode == 0
    return said


def test_what_a_newcomer_reads_of_a_second_start_and_after_a_stop(machine):
    began = machine.start("--name", "here", "--no-local-agent")
    assert "WARNING" not in began, "the broker takes a moment to listen, which is no trouble"
    machine.rankd("submit", "-H", "-J", "stays", "--", "true")
    second = machine._run("up", "--dir", str(machine.directory), status=3)
    assert "another rankd up is running on" in second.stderr
    assert "stopped" not in second.stdout
    here = ("--dir", str(machine.directory))
    assert "nothing runs in" not in machine.rankd_all("queue", *here).stderr
    machine.stop()
    stopped = machine.rankd_all("queue", *here)
    assert "stays" in stopped.stdout
    assert f"nothing runs in {machine.directory}; this is what its database says, and `rankd up --dir" in stopped.stderr


async def test_kept_jobs_run_on_and_the_next_up_reports_their_ends(machine):
    place = machine.directory.parent
    os.mkfifo(place / "fifo")
    machine.start("--name", "here", "--keep-jobs")
    job, pid = await a_running_job(machine, UNTIL_TOLD)
    said = stop_reading(machine, signal.SIGINT)
    assert "1 job is running; they go on without rankd" in said
    assert alive(pid)
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        (place / "fifo").write_text("told\n")
        assert await client.until_ended(1) == {job: "completed"}
    assert machine.rows("SELECT requeues FROM job") == [{"requeues": 0}]
    assert (machine.directory / f"agent/output/alice/job-{job}.out").read_text() == "begun\ntold\n"


async def test_ctrl_c_says_what_becomes_of_the_jobs_and_ends_them(machine):
    os.mkfifo(machine.directory.parent / "fifo")
    machine.start("--name", "here")
    _, pid = await a_running_job(machine, UNTIL_TOLD)
    said = stop_reading(machine, signal.SIGINT)
    assert "1 job is running; they are told to end (SIGTERM), have 5 s for it, and are queued again" in said
    assert "--keep-jobs" in said
    assert not alive(pid)
    assert machine.rows("SELECT state FROM job") == [{"state": "pending"}]


async def test_ctrl_c_without_jobs_says_nothing_of_them(machine):
    machine.start("--name", "here")
    assert "running" not in stop_reading(machine, signal.SIGINT)


async def test_a_second_ctrl_c_kills_the_jobs(machine, tmp_path):
    config = shutil.copytree(shipped("config"), tmp_path / "etc")
    file = config / "rankd.toml"
    file.write_text(file.read_text().replace("grace_s = 5 ", "grace_s = 600 "))
    machine.start("--name", "here", "--config", str(config))
    _, pid = await a_running_job(machine, IGNORES_TERM)
    machine._process.send_signal(signal.SIGINT)
    await appears(machine.directory.parent / "told")
    assert "running; they are told to end" in stop_reading(machine, signal.SIGINT)
    await gone(pid)
    assert machine.rows("SELECT state FROM job") == [{"state": "pending"}]


async def test_jobs_outlive_an_up_that_is_killed(machine):
    place = machine.directory.parent
    os.mkfifo(place / "fifo")
    machine.start("--name", "here")
    job, pid = await a_running_job(machine, UNTIL_TOLD)
    pids = machine.up["pids"].values()
    machine._process.kill()
    machine._process.communicate()
    for service in pids:
        await gone(service)
    assert alive(pid)
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        (place / "fifo").write_text("told\n")
        assert await client.until_ended(1) == {job: "completed"}


MOMENTS = ("up.lock", "rankd.db", "nats/server.conf", "log/nats.log", "log/intake.log", "log/agent.log",
           "agent/lock", "agent/keeper.socket", "agent/keeper.log", "up.json")  # fmt: skip
"""Files that ``rankd up`` makes as it starts, in about this order."""


@pytest.mark.parametrize(("number", "moment"), list(zip(cycle((signal.SIGTERM, signal.SIGINT)), MOMENTS, strict=False)))
def test_a_signal_while_it_starts_ends_it_and_all_that_it_has_started(machine, moment, number, monkeypatch):
    monkeypatch.setenv(MARK, str(machine.directory))
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *RANKD, "up", "--dir", str(machine.directory), "--name", "here"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (machine.directory / moment).exists():
            assert not gone_within(process.pid, 0.01)
            assert time.monotonic() < deadline
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode in (0, -number)
    assert "Traceback" not in said
    assert not [pid for pid in marked(str(machine.directory)) if not gone_within(pid, PATIENCE_S)]
    assert not (machine.directory / "up.json").exists()


def marked(mark: str) -> list[int]:
    """Processes whose environment has the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in variables:
            found.append(int(path.name))
    return found
