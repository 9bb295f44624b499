"""The examples of Slurm's page "Job Array Support", with real processes."""

from __future__ import annotations

import json
import time

import pytest
from watch import LOOK_EVERY_S, PATIENCE_S

SHOW = 'echo "$RANKD_ARRAY_JOB_ID $RANKD_ARRAY_TASK_ID $RANKD_ARRAY_TASK_COUNT $RANKD_ARRAY_TASK_MIN \
$RANKD_ARRAY_TASK_MAX $RANKD_ARRAY_TASK_STEP $RANKD_JOB_ID"'


@pytest.fixture(scope="module")
def machine(shared_machine):
    """One site for all tests of this file; its node runs jobs for real."""
    shared_machine.start()
    return shared_machine


def submit(machine, array: str, *words: str, command: tuple[str, ...] = ("true",)) -> int:
    answer = json.loads(machine.rankd("submit", "--json", "-a", array, *words, "--", *command))
    return int(answer["id"])


def record(machine, job: int) -> dict:
    [row] = machine.rows("SELECT * FROM job WHERE id = ?", job)
    return row


def ended(machine, array: int) -> dict:
    """The array's record, once it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while (row := record(machine, array))["ended_at"] is None and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return row


def tasks(machine, array: int) -> list[dict]:
    return machine.rows("SELECT * FROM job WHERE array_job = ? ORDER BY array_task", array)


def test_the_number_of_tasks_is_in_the_answer(machine):
    for listed, number in (("0-31", 32), ("1,3,5,7", 4), ("1-7:2", 4), ("0-15%4", 16)):
        answer = json.loads(machine.rankd("submit", "--json", "-H", "-a", listed, "--", "true"))
        assert answer["tasks"] == number
        machine.rankd("cancel", str(answer["id"]))
    assert "has the step 0" in machine.rankd_fails("submit", "-a", "1-3:0", "--", "true", status=2)


def test_each_task_has_its_variables_and_its_output_file(machine):
    array = submit(machine, "1-3", command=("sh", "-c", SHOW))
    assert ended(machine, array)["state"] == "completed"
    rows = tasks(machine, array)
    assert [row["array_task"] for row in rows] == [1, 2, 3]
    for row in rows:
        index = row["array_task"]
        text = (machine.directory / f"agent/output/job-{array}_{index}.out").read_text()
        assert text.split() == [str(array), str(index), "3", "1", "3", "1", str(row["id"])]


def test_file_names_may_hold_the_array_and_the_task(machine, tmp_path):
    array = submit(
        machine, "1,3", "-o", f"{tmp_path}/%A-%a-%j.txt", command=("sh", "-c", "echo $RANKD_ARRAY_TASK_STEP")
    )
    ended(machine, array)
    found = {path.name: path.read_text() for path in tmp_path.glob("*.txt")}
    assert found == {f"{array}-{row['array_task']}-{row['id']}.txt": "2\n" for row in tasks(machine, array)}


def test_the_queue_shows_the_rest_as_one_line_or_each_task(machine):
    array = submit(machine, "5-1024%4", "-H")
    assert machine.rankd("queue", "-h", "-j", str(array)).split()[0] == f"{array}_[5-1024%4]"
    lines = machine.rankd("queue", "-h", "-r", "-j", str(array)).splitlines()
    assert [line.split()[0] for line in lines] == [f"{array}_{index}" for index in range(5, 1025)]
    [row] = json.loads(machine.rankd("queue", "--json", "-j", str(array)))
    assert (row["array"], row["array_limit"]) == ("5-1024", 4)
    machine.rankd("cancel", str(array))
    assert record(machine, array)["state"] == "cancelled"


def test_tasks_are_cancelled_by_their_names(machine):
    array = submit(machine, "1-9", "-H")
    machine.rankd("cancel", f"{array}_[1-3]")
    machine.rankd("cancel", f"{array}_4", f"{array}_5")
    assert record(machine, array)["array"] == "6-9"
    assert {row["state"] for row in tasks(machine, array)} == {"cancelled"}
    assert "there is no task" in machine.rankd_fails("cancel", f"{array}_10")
    machine.rankd("cancel", str(array))
    assert record(machine, array)["state"] == "cancelled"
    assert machine.rankd_fails("cancel", f"{array}_4").startswith("rankd: job ")


def test_one_task_or_all_of_an_array_are_changed(machine):
    array = submit(machine, "0-7", "-H")
    machine.rankd("update", f"{array}_3", "--comment", "alone")
    machine.rankd("update", str(array), "-t", "30")
    assert record(machine, array)["time_limit_s"] == 1800.0
    [task] = tasks(machine, array)
    assert (task["array_task"], task["comment"], task["time_limit_s"]) == (3, "alone", 1800.0)
    assert record(machine, array)["comment"] is None
    shown = json.loads(machine.rankd("show", "--json", f"{array}_5"))
    assert (shown["id"], shown["array_task"], shown["state"]) == (array, 5, "pending")
    assert len(tasks(machine, array)) == 1
    machine.rankd("update", str(array), "--array-limit", "2")
    assert record(machine, array)["array_limit"] == 2
    machine.rankd("release", str(array))
    assert ended(machine, array)["state"] == "completed"


def test_a_job_may_wait_for_all_tasks_of_an_array(machine):
    array = submit(machine, "1-3", command=("sh", "-c", "exit $((RANKD_ARRAY_TASK_ID == 2))"))
    ok = int(machine.rankd("submit", "--parsable", "-d", f"afterok:{array}", "--", "true"))
    always = int(machine.rankd("submit", "--parsable", "-d", f"afterany:{array}", "--", "true"))
    assert ended(machine, array)["state"] == "failed"
    assert ended(machine, always)["state"] == "completed"
    assert record(machine, ok)["state"] == "pending"
    machine.rankd("cancel", str(ok))


def test_the_services_may_be_killed_while_an_array_runs(machine):
    array = submit(machine, "0-19%3", command=("sleep", "0.2"))
    for service in ("scheduler", "intake", "prioritizer", "nats"):
        machine.kill(service)
        time.sleep(0.5)
    assert ended(machine, array)["state"] == "completed"
    rows = tasks(machine, array)
    assert [row["array_task"] for row in rows] == list(range(20))
    starts = machine.rows(
        "SELECT count(*) AS n FROM allocation a JOIN job j ON j.id = a.job_id WHERE j.array_job = ?", array
    )
    assert starts[0]["n"] >= 20


def test_accounting_has_a_line_per_task_and_their_sum(machine):
    array = submit(machine, "1-2")
    ended(machine, array)
    lines = machine.rankd("acct", "-j", str(array), "-H", "-P", "-o", "JobID,State,CPUTime").splitlines()
    assert [line.split("|")[0] for line in lines] == [str(array), f"{array}_1", f"{array}_2"]
    assert {line.split("|")[1] for line in lines} == {"COMPLETED"}


def test_events_of_tasks_name_their_array(machine):
    array = submit(machine, "7")
    ended(machine, array)
    [task] = tasks(machine, array)
    history = json.loads(machine.rankd("history", "--json", f"{array}_7"))
    assert [event["event"] for event in history] == ["split", "allocate", "start", "complete"]
    assert history[0]["job_id"] == task["id"]
