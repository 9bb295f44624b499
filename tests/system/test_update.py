"""``rankd update`` as a user and an administrator meet it, with real processes that are killed."""

from __future__ import annotations

import json

from watch import comes

ALICE, BOB = ("--as", "alice"), ("--as", "bob")


def submit(machine, asker, *words):
    return int(machine.rankd("submit", *asker, "--parsable", *words, "--", "true"))


def record(machine, job):
    [row] = machine.rows("SELECT queue, qos, urgency, time_limit_s, nodes, begin_at FROM job WHERE id = ?", job)
    return row


def test_jobs_are_changed_by_number_and_by_filter_and_what_fails_is_named(machine):
    machine.start("--no-local-agent")
    first, second = submit(machine, ALICE, "-n", "1"), submit(machine, ALICE, "-J", "other")
    theirs = submit(machine, BOB)
    assert machine.rankd("update", *ALICE, str(first), "-q", "batch", "-t", "2:00:00", "-c", "2", "--mem", "1G") == ""
    assert record(machine, first) | {"begin_at": None} == {
        "queue": "root.batch", "qos": "normal", "urgency": 16, "time_limit_s": 7200.0, "nodes": 1, "begin_at": None,
    }  # fmt: skip
    assert machine.rankd("update", *ALICE, f"{first}-{theirs}", "--urgency", "4") == "", "a range means one's own jobs"
    said = machine.rankd_fails("update", *ALICE, f"{first},{second},{theirs}", "--urgency", "3")
    assert said == f"rankd: job {theirs} belongs to 'bob'; only its owner or an administrator may do that\n"
    assert [record(machine, job)["urgency"] for job in (first, second, theirs)] == [3, 3, 16]
    chosen = ("update", *ALICE, "--me", "-w", "queue=root.default", "--qos", "low")
    assert machine.rankd(*chosen, "--dry-run") == f"1 job would be changed: {second}\n"
    assert record(machine, second)["qos"] == "normal"
    assert machine.rankd(*chosen, "-v") == f"{second}\n"
    assert [record(machine, job)["qos"] for job in (first, second, theirs)] == ["normal", "low", "normal"]
    assert machine.rankd("cancel", "--admin", "--qos", "low", "--dry-run", "-v") == f"{second}\n"
    said = machine.rankd_fails("update", *ALICE, "--me", "-q", "nowhere")
    assert [line.split(": ")[1] for line in said.splitlines()] == [f"job {first}", f"job {second}"]
    for words in (["update"], ["update", str(first)], ["update", "-q", "batch"]):
        machine.rankd_fails(*words, status=2)


def test_a_change_is_on_record_and_outlives_the_death_of_every_service(machine):
    machine.start("--no-local-agent")
    machine.rankd("class", "create", "--admin", "deadline", "--value", "5000")
    first, job = submit(machine, ALICE), submit(machine, ALICE)
    machine.rankd("update", *ALICE, str(job), "--class", "deadline", "-q", "batch", "--urgency", "10")
    machine.rankd("update", *ALICE, str(job), "-d", f"afterany:{first}", "-N", "2")
    machine.rankd("update", "--admin", "--as", "root", str(first), "--fix-priority", "77")
    before = machine.rankd("history", str(job)), json.loads(machine.rankd("history", str(job), "--json"))
    for service in ("intake", "prioritizer", "scheduler", "nats"):
        machine.kill(service)
    assert machine.stop() == 0
    machine.start("--no-local-agent")
    assert (machine.rankd("history", str(job)), json.loads(machine.rankd("history", str(job), "--json"))) == before
    shown, events = before
    assert "class_value 0 -> 5000" in shown
    assert "queue root.default -> root.batch" in shown
    assert f"nodes 1 -> 2, depends_on - -> afterany:{first}" in shown
    assert [event["actor"] for event in events] == ["alice"] * 3
    machine.rankd("cancel", *ALICE, str(first))
    query = "SELECT class_value, queue, override_by FROM job_priority WHERE rank IS NOT NULL"
    assert comes(lambda: machine.rows(query)) == [{"class_value": 5000, "queue": "root.batch", "override_by": None}]
    [event] = machine.rows("SELECT actor, detail FROM job_event WHERE job_id = ? AND event = 'update'", first)
    assert (event["actor"], json.loads(event["detail"])) == ("root", {"fixed_priority": {"before": None, "after": 77}})
