"""``rankd retry`` and ``rankd acct JOB`` with real processes: scripts, arrays and their tasks are submitted again."""

from __future__ import annotations

import json

import pytest
from system.test_array import ended, record, submit, tasks

SCRIPT = """#!/bin/sh
#SBATCH --array=1-6%3
#SBATCH --output=%A_%a.txt
echo "$1 $KEPT $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
test -e fixed || test $((SLURM_ARRAY_TASK_ID % 3)) != 0
"""


@pytest.fixture(scope="module")
def machine(shared_machine):
    """One site for all tests of this file; its node runs jobs for real."""
    shared_machine.start()
    return shared_machine


def test_only_the_failed_tasks_of_a_script_run_again(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("KEPT", "kept")
    (tmp_path / "work.sh").write_text(SCRIPT)
    words = ("-D", str(tmp_path), str(tmp_path / "work.sh"), "word")
    array = int(machine.rankd("submit", "--parsable", *words))
    assert ended(machine, array)["state"] == "failed"
    (tmp_path / "work.sh").unlink()
    (tmp_path / "fixed").touch()
    answer = json.loads(machine.rankd("retry", "--failed", "--json", str(array)))
    assert answer["tasks"] == 2
    assert ended(machine, answer["id"])["state"] == "completed"
    assert [row["array_task"] for row in tasks(machine, answer["id"])] == [3, 6]
    for index in (3, 6):
        text = (tmp_path / f"{answer['id']}_{index}.txt").read_text()
        assert text == f"word kept {index} of 6\n"
    assert record(machine, array)["state"] == "failed"
    assert ["retry_of", str(array)] in map(str.split, machine.rankd("show", str(answer["id"])).splitlines())
    assert "have completed; leave out --failed" in machine.rankd_fails("retry", "--failed", str(answer["id"]))


def test_a_task_is_named_by_its_array_or_by_its_record(machine):
    array = submit(machine, "0-3", command=("sh", "-c", "exit $((RANKD_ARRAY_TASK_ID == 2))"))
    ended(machine, array)
    of_task = tasks(machine, array)[2]["id"]
    lines = machine.rankd("retry", "--parsable", f"{array}_2", str(of_task), f"{array}_[1-2]").split()
    assert len(lines) == 2, "the tasks that are named by their array are one array"
    for new, listed in zip(map(int, lines), ("1-2", "2"), strict=True):
        assert ended(machine, new)["retry_of"] == array
        [shown] = machine.rows("SELECT json_extract(request, '$.array') AS listed FROM jobs WHERE id = ?", new)
        assert shown["listed"] == listed
    missing = machine.rankd_fails("retry", f"{array}_9", str(array))
    assert f"rankd: there is no task {array}_9 of array {array}" in missing


def test_a_job_that_has_not_ended_is_refused_and_a_retry_may_be_held(machine):
    job = int(machine.rankd("submit", "--parsable", "-H", "--", "true"))
    assert f"job {job} is pending; a job can be submitted again once" in machine.rankd_fails("retry", str(job))
    machine.rankd("cancel", str(job))
    assert machine.rankd("retry", "-H", "--key", f"again-{job}", str(job)) == f"Submitted batch job {job + 1}\n"
    assert machine.rankd("retry", "-H", "--key", f"again-{job}", str(job)) == f"Submitted batch job {job + 1}\n"
    machine.rankd("update", str(job + 1), "--comment", "more memory")
    machine.rankd("release", str(job + 1))
    assert ended(machine, job + 1)["state"] == "completed"
    machine.rankd("retry", str(job + 1))
    assert ended(machine, job + 2)["comment"] == "more memory"


def test_accounting_takes_names_as_words(machine):
    array = submit(machine, "1-2", command=("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"))
    ended(machine, array)
    total, *each = _acct(machine, str(array))
    assert [row["JobID"] for row in (total, *each)] == [str(array), f"{array}_1", f"{array}_2"]
    assert float(total["TotalCPU"]) == pytest.approx(sum(float(row["TotalCPU"]) for row in each), abs=0.002)
    assert [row["JobID"] for row in _acct(machine, f"{array}_2")] == [f"{array}_2"]
    assert [row["JobID"] for row in _acct(machine, f"{array}_[1-2]", "-j", str(array))] == [
        str(array), f"{array}_1", f"{array}_2",
    ]  # fmt: skip


def _acct(machine, *words: str) -> list[dict[str, str]]:
    lines = machine.rankd("acct", *words, "-P", "-o", "JobID,State,TotalCPU").splitlines()
    return [dict(zip(lines[0].split("|"), line.split("|"), strict=True)) for line in lines[1:]]


def test_tasks_that_waited_by_index_wait_again(machine, tmp_path):
    fails = ("sh", "-c", f"test -e {tmp_path}/fixed || test $RANKD_ARRAY_TASK_ID != 1")
    first = submit(machine, "0-2", command=fails)
    words = ("-d", f"aftercorr:{first}", "--kill-on-invalid-dep", "yes")
    second = submit(machine, "0-2", *words)
    assert ended(machine, second)["state"] == "failed"
    again = int(machine.rankd("retry", "--parsable", f"{second}_1"))
    assert (ended(machine, again)["state"], tasks(machine, again)) == ("cancelled", [])
    both = int(machine.rankd("retry", "--parsable", f"{second}_[0-1]"))
    assert ended(machine, both)["state"] == "failed"
    assert [(row["array_task"], row["state"]) for row in tasks(machine, both)] == [(0, "completed")]
    (tmp_path / "fixed").touch()
    repaired = int(machine.rankd("retry", "--parsable", "--failed", str(first)))
    assert ended(machine, repaired)["state"] == "completed"
    held = int(machine.rankd("retry", "--parsable", "--hold", f"{second}_1"))
    assert json.loads(machine.rankd("show", "--json", str(held)))["cancel_if_unmet"] is False
    machine.rankd("update", str(held), "-d", f"aftercorr:{repaired}")
    machine.rankd("release", str(held))
    assert ended(machine, held)["state"] == "completed"
    assert [row["array_task"] for row in tasks(machine, held)] == [1]
