"""Durable submission, dead letters, watching and accounting, as users have them."""

from __future__ import annotations

import json
import subprocess

import pytest
from system.conftest import RANKD


@pytest.fixture
def up(machine):
    machine.start("--simulate", "2")
    return machine


def watching(machine, *words: str) -> subprocess.Popen[str]:
    """``rankd watch`` in the background."""
    command = [*RANKD, "watch", "--json", "--dir", str(machine.directory), "--since", "today", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def events_until(watch: subprocess.Popen[str], *, job: int, state: str) -> list[dict]:
    seen = []
    for line in watch.stdout:
        seen.append(json.loads(line))
        if (seen[-1].get("job"), seen[-1].get("state")) == (job, state):
            return seen
    raise AssertionError(seen)


def test_an_enqueued_job_runs_and_is_watched_from_submission_to_end_across_crashes(up):
    watch = watching(up, "--all", "--admin")
    try:
        up.rankd("submit", "--as", "bob", "--hold", "--", "true")
        first = [json.loads(watch.stdout.readline())]  # from here on, it watches
        up.kill("intake")
        said = up.rankd("submit", "--enqueue", "--key", "later", "--as", "ann", "-n", "1", "--", "true")
        assert said == "Enqueued a job with the key later\n"
        up.rankd("submit", "--enqueue", "--key", "later", "--as", "ann", "-n", "1", "--", "true")
        first += events_until(watch, job=2, state="completed")
        assert [event["event"] for event in first] == ["submit", "submit", "allocate", "start", "complete"]
        up.kill("nats")
        up.rankd("submit", "--as", "ann", "--", "true")
        second = events_until(watch, job=3, state="completed")
        up.kill("intake")
        up.kill("nats")
        up.rankd("submit", "--as", "ann", "--", "true")
        third = events_until(watch, job=4, state="completed")
        ids = [event["id"] for event in first + second + third]
        assert ids == [row["id"] for row in up.rows("SELECT id FROM job_event ORDER BY id")]
    finally:
        watch.terminate()
        watch.communicate()


def test_a_refused_submission_is_watched_shown_and_retried(up):
    watch = watching(up, "--user", "ann", "--as", "ann")
    try:
        up.rankd("submit", "--as", "ann", "--hold", "--", "true")
        assert json.loads(watch.stdout.readline())["event"] == "submit"  # from here on, it watches
        up.rankd("submit", "--enqueue", "--as", "ann", "--queue", "root.nowhere", "--", "true")
        letter = json.loads(watch.stdout.readline())
        assert letter["code"] == "unknown_queue"
        number = str(letter["id"])
        assert "unknown_queue" in up.rankd("deadletter", "list", "--as", "ann")
        assert "root.nowhere" in up.rankd("deadletter", "show", number, "--as", "ann")
        up.rankd("deadletter", "show", number, "--as", "bob", status=1)
        up.rankd("deadletter", "retry", number, "--as", "ann", status=1)
        assert up.rankd("deadletter", "drop", number, "--admin") == f"dead letter {number}: dropped\n"
        assert len(up.rankd("deadletter", "list", "--as", "ann").splitlines()) == 1
    finally:
        watch.terminate()
        watch.communicate()


def test_acct_tells_what_ended_jobs_used_in_sacct_s_words(up):
    up.rankd("submit", "--as", "ann", "-J", "fit", "-c", "2", "--wait", "--", "true")
    up.rankd("submit", "--as", "bob", "-H", "--", "true")
    lines = up.rankd("acct", "-P", "--format", "jobid,jobname,user,alloccpus,state,exitcode,nnodes").splitlines()
    assert lines == [
        "JobID|JobName|User|AllocCPUS|State|ExitCode|NNodes",
        "1|fit|ann|2|COMPLETED|0:0|1",
        "2|true|bob|0|PENDING|0:0|1",
    ]
    assert [row["id"] for row in json.loads(up.rankd("acct", "--json", "-u", "ann"))] == [1]
    assert len(up.rankd("acct", "--starttime", "now+1hour").splitlines()) == 2  # bob's has not ended yet
    assert "unknown field 'nope'" in up.rankd_fails("acct", "--format", "nope", status=2)
