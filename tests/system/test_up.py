"""``rankd up`` as a user meets it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from pathlib import Path

import pytest
from system.client import connected
from system.conftest import RANKD
from watch import PATIENCE_S


def breakdowns_add_up(machine) -> int:
    """Every row of job_priority adds up, by SQL and by hand; how many rows there were."""
    rows = machine.rows("SELECT * FROM job_priority")
    for row in rows:
        factors = [f["name"] for f in factors_of(machine)]
        total = 0.0
        for name in factors:
            total += row[f"{name}_points"]
        assert total == row["points_sum"]
        if row["override"] is None:
            assert row["priority"] == row["class_value"] + math.trunc(row["points_sum"])
    return len(rows)


def factors_of(machine) -> list[dict]:
    [newest] = machine.rows("SELECT weights FROM generation ORDER BY number DESC LIMIT 1")
    return [{"name": name, "weight": weight} for name, weight in json.loads(newest["weights"]).items()]


async def test_jobs_submitted_over_raw_nats_run_and_leave_their_output(machine):
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        reply = await client.ask(
            "rankd.v1.user.alice.job.submit", {"command": ["sh", "-c", "echo out $RANKD_JOB_ID; echo err >&2; exit 3"]}
        )
        [good] = await client.submit("bob", {"command": ["true"], "name": "well"})
        ended = await client.until_ended(2)
        failed = reply["id"]
        assert ended == {failed: "failed", good: "completed"}
        record = await client.ask("rankd.v1.user.alice.job.show", {"id": failed})
    assert (record["exit_status"], record["state"], record["nodelist"]) == (3, "failed", "here")
    assert Path(record["stdout"]).read_text() == f"out {failed}\n"
    assert Path(record["stderr"]).read_text() == "err\n"
    assert machine.rows("SELECT event FROM job_event WHERE job_id = ? ORDER BY id", failed) == [
        {"event": event} for event in ("submit", "allocate", "start", "fail")
    ]


async def test_a_time_limit_ends_a_job_and_a_signal_is_recorded(machine):
    machine.start()
    async with connected(machine.up["nats"], machine.services) as client:
        [slow] = await client.submit("alice", {"command": ["sleep", "60"], "time_limit_s": 0.5})
        [killed] = await client.submit("alice", {"command": ["sh", "-c", "kill -9 $$"]})
        ended = await client.until_ended(2)
    assert ended == {slow: "timeout", killed: "failed"}
    [row] = machine.rows("SELECT signal, exit_status FROM job WHERE id = ?", killed)
    assert row == {"signal": 9, "exit_status": None}


@pytest.fixture(scope="module")
def site(shared_machine):
    """One for the tests that leave it as it is, but for jobs that wait."""
    shared_machine.start("--no-local-agent")
    return shared_machine


async def test_bad_input_gets_code_message_and_field(site):
    [before] = site.rows("SELECT count(*) AS n FROM job")
    async with connected(site.up["nats"], site.services) as client:
        subject = "rankd.v1.user.alice.job.submit"
        unknown = await client.ask(subject, {"command": ["true"], "qeue": "root.default"})
        assert (unknown["code"], unknown["field"]) == ("unknown_field", "qeue")
        queue = await client.ask(subject, {"command": ["true"], "queue": "root.nowhere"})
        assert (queue["code"], queue["field"]) == ("unknown_queue", "queue")
        assert "root.nowhere" in queue["message"]
        somebody_else = await client.ask(subject, {"command": ["true"], "user": "bob"})
        assert somebody_else["code"] == "user_mismatch"
        urgent = await client.ask(subject, {"command": ["true"], "urgency": 20})
        assert (urgent["code"], urgent["field"]) == ("urgency_not_allowed", "urgency")
        batch = await client.ask(subject, {"jobs": [{"command": ["true"]}, {"command": []}, {"nodes": 1}]})
        assert [entry["index"] for entry in batch["accepted"]] == [0]
        assert [(entry["index"], entry["code"]) for entry in batch["rejected"]] == [
            (1, "empty_command"),
            (2, "missing_field"),
        ]
        atomic = await client.ask(subject, {"jobs": [{"command": ["true"]}, {"command": []}], "atomic": True})
        assert not atomic["accepted"]
        assert len(atomic["rejected"]) == 1
    assert site.rows("SELECT count(*) AS n FROM job") == [{"n": before["n"] + 1}]


async def test_the_same_key_is_the_same_job(site):
    async with connected(site.up["nats"], site.services) as client:
        subject = "rankd.v1.user.alice.job.submit"
        first = await client.ask(subject, {"command": ["true"], "key": "k"})
        assert await client.ask(subject, {"command": ["true"], "key": "k"}) == first
        other = await client.ask("rankd.v1.user.bob.job.submit", {"command": ["true"], "key": "k"})
        assert other != first


async def test_a_reply_to_a_subject_that_is_no_inbox_is_never_sent(site):
    """The confused deputy: the daemon must not speak where the asker may not."""
    async with connected(site.up["nats"], site.services) as client:
        trap = await client.connection.subscribe("rankd.v1.node.victim.>")
        await client.connection.publish(
            "rankd.v1.user.mallory.job.submit", b'{"command": ["true"]}', reply="rankd.v1.node.victim.allocation"
        )
        await client.ask("rankd.v1.user.alice.job.list", {})
        assert trap.pending_msgs == 0
    assert site.rows("SELECT 1 FROM job WHERE user = 'mallory'") == []


async def test_breakdowns_add_up_and_held_jobs_have_no_rank(machine):
    machine.start("--no-local-agent")
    async with connected(machine.up["nats"], machine.services) as client:
        jobs = [
            {"command": ["true"], "qos": qos, "urgency": urgency} for qos in ("low", "normal") for urgency in (0, 16)
        ]
        for user in ("alice", "bob"):
            await client.submit(user, *jobs, {"command": ["true"], "priority_class": "low", "queue": "batch"})
        ranking = await client.connection.subscribe("rankd.v1.event.ranking")
        while (json.loads((await ranking.next_msg(timeout=PATIENCE_S)).data))["jobs"] < 6:
            pass
        shown = await client.ask("rankd.v1.user.alice.job.show", {"id": 1})
    assert breakdowns_add_up(machine) == 10
    held = machine.rows("SELECT rank, reason FROM job_priority WHERE id IN (1, 3) ORDER BY id")
    assert held == [{"rank": None, "reason": "held"}] * 2
    ranks = machine.rows("SELECT rank FROM job_priority WHERE rank IS NOT NULL ORDER BY rank")
    assert [row["rank"] for row in ranks] == [1, 2, 3, 4, 5, 6]
    both = "SELECT r.priority AS ranked, p.priority AS shown FROM ranking r JOIN job_priority p ON p.id = r.job_id"
    assert all(row["ranked"] == row["shown"] for row in machine.rows(both))
    assert shown["priority_breakdown"]["class_value"] == 0
    assert len(machine.rows("SELECT * FROM job_factor")) == 60


def test_a_submission_with_retry_for_waits_for_a_rankd_that_does_not_run_yet(machine):
    place = os.environ | {"RANKD_DIR": str(machine.directory)}
    machine.directory.mkdir()
    refused = subprocess.run([*RANKD, "submit", "--", "true"], env=place, capture_output=True, text=True, check=False)
    assert refused.returncode == 3, "without the option, it does not wait"
    words = [*RANKD, "submit", "--retry-for", str(PATIENCE_S), "--parsable", "--", "true"]
    with subprocess.Popen(words, env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert "no rankd runs; waiting for one" in waiting.stderr.readline()
        machine.start()
        out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, out.strip().isdecimal()) == (0, True), err


async def test_everything_stops_cleanly_and_state_survives_a_restart(machine):
    machine.start("--no-local-agent", "--simulate", "1")
    async with connected(machine.up["nats"], machine.services) as client:
        [waiting] = await client.submit("alice", {"command": ["sleep", "1"], "resources": {"vcore": 64}})
    up = machine.up
    assert up["ready"] is True
    assert machine.stop(signal.SIGTERM) == 0
    assert not (machine.directory / "up.json").exists()
    assert not [pid for pid in [*up["pids"].values(), up["pid"]] if Path(f"/proc/{pid}").exists()]
    machine.start("--no-local-agent", "--simulate", "1")
    assert machine.rows("SELECT state FROM job WHERE id = ?", waiting) == [{"state": "pending"}]
    assert machine.stop() == 0


async def test_a_job_that_runs_when_everything_stops_runs_again_after_the_next_start(machine):
    machine.start("--name", "here")
    flag = machine.directory.parent / "second"
    script = f"test -e {flag} && exit 0; touch {flag}; exec sleep 600"
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sh", "-c", script]})
        while json.loads((await events.next_msg(timeout=PATIENCE_S)).data)["events"][-1]["event"] != "start":
            pass
    assert machine.stop() == 0
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        assert (await client.until_ended(1))[job] == "completed"
    [row] = machine.rows("SELECT requeues FROM job WHERE id = ?", job)
    assert row == {"requeues": 1}
    allocations = machine.rows("SELECT count(*) AS n FROM allocation WHERE job_id = ?", job)
    assert allocations == [{"n": 2}]


def test_a_second_up_in_the_same_directory_is_refused(site):
    refused = site.rankd("up", "--dir", str(site.directory), status=3)
    assert "starting in" in refused


def test_a_bad_configuration_is_refused_with_every_problem(machine, tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    (config / "rankd.toml").write_text("[priority.weights]\nagee = 1\n")
    (config / "queues.yaml").write_text("partitions: 3\n")
    machine.rankd("up", "--dir", str(machine.directory), "--config", str(config), status=2)


async def test_cancel_hold_and_release_by_their_owner_only(machine):
    endless_s = f"600.{os.getpid()}"  # no other run of this test
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        [held] = await client.submit("alice", {"command": ["true"], "held": True})
        [endless] = await client.submit("alice", {"command": ["sleep", endless_s]})
        refused = await client.ask("rankd.v1.user.bob.job.cancel", {"id": endless})
        assert refused["code"] == "not_owner"
        unknown = await client.ask("rankd.v1.user.bob.job.cancel", {"id": 999})
        assert unknown["code"] == "unknown_job"
        assert (await client.ask("rankd.v1.user.alice.job.release", {"id": held}))["done"] == [held]
        assert (await client.until_ended(1))[held] == "completed"
        assert (await client.ask("rankd.v1.admin.root.job.cancel", {"ids": [endless]}))["done"] == [endless]
        assert (await client.until_ended(2))[endless] == "cancelled"
    [last] = machine.rows("SELECT actor FROM job_event WHERE job_id = ? ORDER BY id DESC LIMIT 1", endless)
    assert last == {"actor": "root"}
    assert not [
        path for path in Path("/proc").iterdir() if path.name.isdigit() and _runs(path.name, f"sleep\0{endless_s}")
    ]


def _runs(pid: str, command: str) -> bool:
    try:
        return command in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
