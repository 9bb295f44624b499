"""The dependency examples of Slurm's manual: of sbatch's page (``--dependency``) and of "Job Array Support".

Each example is what is submitted and what must happen, with real processes. Jobs that must not end yet read a pipe.
"""

from __future__ import annotations

import json
import os
import time

import pytest
from watch import LOOK_EVERY_S, PATIENCE_S


@pytest.fixture(scope="module")
def machine(shared_machine):
    """One site for all tests of this file; its node runs jobs for real."""
    shared_machine.start()
    return shared_machine


def submit(machine, *words: str, command: tuple[str, ...] = ("true",)) -> int:
    return int(json.loads(machine.rankd("submit", "--json", "-c", "50m", *words, "--", *command))["id"])


def record(machine, job: int) -> dict:
    [row] = machine.rows("SELECT * FROM job WHERE id = ?", job)
    return row


def until(machine, job: int, **wanted) -> dict:
    """The job's record, once it has these values."""
    deadline = time.monotonic() + PATIENCE_S
    while not all((row := record(machine, job))[name] == value for name, value in wanted.items()):
        assert time.monotonic() < deadline, (wanted, dict(row))
        time.sleep(LOOK_EVERY_S)
    return row


def tasks(machine, array: int) -> dict[int, dict]:
    return {row["array_task"]: row for row in machine.rows("SELECT * FROM job WHERE array_job = ?", array)}


class Pipe:
    """Jobs with :attr:`command` run until :meth:`open`."""

    def __init__(self, path) -> None:
        self.path = path
        os.mkfifo(path)
        self.command = ("sh", "-c", f"read line < {path}; exit $line")

    def end(self, status: int = 0) -> None:
        self.path.write_text(f"{status}\n")


@pytest.fixture
def pipe(tmp_path):
    return Pipe(tmp_path / "pipe")


# --- sbatch --dependency -------------------------------------------------------------------------------------


def test_after_begins_once_the_jobs_have_started(machine, pipe):
    first = submit(machine, command=pipe.command)
    job = submit(machine, "-d", f"after:{first}")
    until(machine, job, state="completed")
    assert record(machine, first)["state"] == "running"
    pipe.end()


def test_afterany_begins_once_the_jobs_have_terminated(machine, pipe):
    first, job = submit(machine, command=pipe.command), 0
    job = submit(machine, "-d", f"afterany:{first}")
    until(machine, first, state="running")
    assert record(machine, job)["reason"] == "dependency"
    assert record(machine, job)["reason_fact"] == f"afterany of job {first} (running)"
    pipe.end(3)
    assert until(machine, job, state="completed")["started_at"] >= record(machine, first)["ended_at"]


@pytest.mark.parametrize(("status", "met", "unmet"), [(0, "afterok", "afternotok"), (3, "afternotok", "afterok")])
def test_afterok_and_afternotok_begin_after_an_exit_code_of_zero_or_another_one(machine, pipe, status, met, unmet):
    first = submit(machine, command=pipe.command)
    jobs = {kind: submit(machine, "-d", f"{kind}:{first}") for kind in (met, unmet)}
    pipe.end(status)
    until(machine, jobs[met], state="completed")
    row = until(machine, jobs[unmet], reason="dependency never satisfied")
    assert row["reason_fact"] == f"{unmet} of job {first} ({'failed' if status else 'completed'})"
    assert "it can never start" in machine.rankd("why", str(jobs[unmet]))
    machine.rankd("cancel", str(jobs[unmet]))


def test_all_dependencies_of_a_list_must_be_satisfied(machine, tmp_path):
    pipes = [Pipe(tmp_path / name) for name in "ab"]
    one, two = (submit(machine, command=pipe.command) for pipe in pipes)
    job = submit(machine, "-d", f"afterok:{one}:{two},afterany:{two}")
    pipes[0].end()
    until(machine, one, state="completed")
    fact = f"afterok of job {two} (running); afterany of job {two} (running)"
    until(machine, job, reason_fact=fact)
    pipes[1].end()
    until(machine, job, state="completed")


def test_alternatives_and_delays_are_refused_by_name(machine):
    for words, message in (("afterok:1?afterany:2", "alternatives (?)"), ("after:1+5", "a delay after the start")):
        assert message in machine.rankd_fails("submit", "-d", words, "--", "true", status=2)


def test_singleton_begins_after_earlier_jobs_of_the_same_name_and_user(machine, tmp_path):
    pipes = [Pipe(tmp_path / name) for name in "ab"]
    one = submit(machine, "-J", "single", command=pipes[0].command)
    other = submit(machine, "-J", "another", "-d", "singleton")
    two = submit(machine, "-J", "single", "-d", "singleton", command=pipes[1].command)
    three = submit(machine, "-J", "single", "-d", "singleton")
    until(machine, other, state="completed")
    until(machine, two, reason_fact=f"job {one} of the same user and name has not ended")
    pipes[0].end(1)
    until(machine, two, state="running")
    assert until(machine, three, reason="dependency")["reason_fact"].startswith(f"job {two} ")
    pipes[1].end()
    until(machine, three, state="completed")


def test_with_kill_on_invalid_dep_the_job_and_what_waits_for_it_are_cancelled(machine, pipe):
    first = submit(machine, command=pipe.command)
    job = submit(machine, "-d", f"afterok:{first}", "--kill-on-invalid-dep", "yes")
    last = submit(machine, "-d", f"afterok:{job}", "--kill-on-invalid-dep", "yes")
    stays = submit(machine, "-d", f"afterok:{job}", "--kill-on-invalid-dep", "no")
    after = submit(machine, "-d", f"afterany:{last}", "--kill-on-invalid-dep", "yes")
    pipe.end(1)
    for cancelled in (job, last):
        until(machine, cancelled, state="cancelled")
    until(machine, after, state="completed")
    until(machine, stays, reason="dependency never satisfied")
    history = json.loads(machine.rankd("history", "--json", str(last)))
    assert history[-1]["cause"] == "dependency"
    assert history[-1]["detail"] == {"unmet": f"afterok of job {job} (cancelled)"}
    told = f"was cancelled: a dependency can't be met any more: afterok of job {job} (cancelled)"
    assert told in machine.rankd("why", str(last))
    machine.rankd("cancel", str(stays))


def test_directives_of_a_script_may_say_so(machine, tmp_path, pipe):
    first = submit(machine, command=pipe.command)
    script = tmp_path / "merge.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH -d afterok:{first},singleton\n#SBATCH --kill-on-invalid-dep=yes\ntrue\n")
    job = int(json.loads(machine.rankd("submit", "--json", "-D", str(tmp_path), str(script)))["id"])
    assert json.loads(record(machine, job)["depends_on"]) == [
        {"type": "afterok", "job": first}, {"type": "singleton"},
    ]  # fmt: skip
    pipe.end(1)
    until(machine, job, state="cancelled")


# --- Job Array Support ---------------------------------------------------------------------------------------


def test_a_job_may_depend_on_one_task_of_an_array(machine, tmp_path):
    pipes = [Pipe(tmp_path / f"{index}") for index in range(2)]
    array = submit(machine, "-a", "0-1", command=("sh", "-c", f"read line < {tmp_path}/$RANKD_ARRAY_TASK_ID"))
    job = submit(machine, "-d", f"after:{array}_0,afterok:{array}_1")
    pipes[1].end()
    until(machine, job, state="completed")
    assert tasks(machine, array)[0]["state"] == "running"
    pipes[0].end()
    refusal = machine.rankd_fails("submit", "-d", f"afterok:{array}_7", "--", "true")
    assert refusal.startswith(f"rankd: --dependency names job {array}_7")


def test_a_task_without_a_record_of_its_own_can_be_awaited(machine):
    array = submit(machine, "-a", "0-3", "-H")
    job = submit(machine, "-d", f"afternotok:{array}_2")
    row = until(machine, job, reason="dependency")
    assert row["reason_fact"] == f"afternotok of job {array}_2 (pending)"
    machine.rankd("cancel", str(array))
    until(machine, job, state="completed")


def test_a_job_that_depends_on_an_array_waits_for_all_its_tasks(machine, tmp_path):
    pipes = [Pipe(tmp_path / f"{index}") for index in range(3)]
    command = ("sh", "-c", f"read line < {tmp_path}/$RANKD_ARRAY_TASK_ID; exit $line")
    array = submit(machine, "-a", "0-2", command=command)
    jobs = {kind: submit(machine, "-d", f"{kind}:{array}") for kind in ("afterany", "afterok", "afternotok")}
    pipes[0].end()
    pipes[1].end(1)
    row = until(machine, jobs["afterok"], reason="dependency never satisfied")
    assert row["reason_fact"] == f"afterok of job {array} (a task did not complete)"
    assert record(machine, array)["ended_at"] is None
    assert record(machine, jobs["afternotok"])["reason"] == "dependency"
    pipes[2].end()
    for kind in ("afterany", "afternotok"):
        until(machine, jobs[kind], state="completed")
    machine.rankd("cancel", str(jobs["afterok"]))


def test_aftercorr_begins_each_task_after_the_task_of_the_same_index(machine, tmp_path):
    pipes = [Pipe(tmp_path / f"{index}") for index in range(4)]
    command = ("sh", "-c", f"read line < {tmp_path}/$RANKD_ARRAY_TASK_ID; exit $line")
    first = submit(machine, "-a", "0-3", command=command)
    second = submit(machine, "-a", "0-3", "-d", f"aftercorr:{first}")
    assert record(machine, second)["array"] == "0-3"
    pipes[2].end()
    until(machine, second, array="0-1,3")
    assert tasks(machine, second)[2]["array_task"] == 2
    pipes[0].end(1)
    until(machine, second, array_unmet="0")
    pipes[1].end()
    pipes[3].end()
    row = until(machine, second, reason="dependency never satisfied")
    assert (row["array"], row["reason_fact"]) == ("0", f"aftercorr of job {first} (1 of 1 tasks can never start)")
    assert sorted(tasks(machine, second)) == [1, 2, 3]
    machine.rankd("cancel", str(second))
    until(machine, second, state="failed")


def test_tasks_whose_counterparts_fail_are_cancelled_if_the_array_asks_for_it(machine):
    command = ("sh", "-c", "exit $((RANKD_ARRAY_TASK_ID % 2))")
    first = submit(machine, "-a", "0-5", command=command)
    second = submit(machine, "-a", "0-5", "-d", f"aftercorr:{first}", "--kill-on-invalid-dep", "yes")
    until(machine, second, state="failed")
    assert {index: row["state"] for index, row in tasks(machine, second).items()} == dict.fromkeys(
        (0, 2, 4), "completed"
    )


def test_aftercorr_needs_arrays_of_the_same_indices(machine):
    first = submit(machine, "-a", "0-3", "-H")
    single = submit(machine, "-H")
    for words, message in (
        (("-a", "0-4", "-d", f"aftercorr:{first}"), "needs the same indices"),
        (("-d", f"aftercorr:{first}"), "needs an array"),
        (("-a", "0-3", "-d", f"aftercorr:{single}"), "is not an array"),
    ):
        assert message in machine.rankd_fails("submit", *words, "--", "true")
    machine.rankd("cancel", str(first), str(single))


def test_descendants_are_cancelled_with_a_job_if_the_user_says_so(machine):
    first = submit(machine, "-H")
    chain = [submit(machine, "-d", f"afterok:{first}")]
    chain += [submit(machine, "-d", f"afterany:{chain[-1]}"), submit(machine, "-a", "0-3", "-d", f"after:{chain[-1]}")]
    chain.append(submit(machine, "-d", f"afterok:{chain[-1]}_2"))
    other = submit(machine, "-H")
    assert machine.rankd("cancel", "--dry-run", "--descendants", str(first)).startswith("8 jobs")  # four are tasks
    machine.rankd("cancel", "--descendants", str(first))
    assert {record(machine, job)["state"] for job in (first, *chain)} == {"cancelled"}
    assert record(machine, other)["state"] == "pending"
    machine.rankd("cancel", str(other))


def test_an_array_may_wait_for_a_job(machine, pipe):
    first = submit(machine, command=pipe.command)
    array = submit(machine, "-a", "0-3", "-d", f"afterok:{first}")
    assert until(machine, array, reason="dependency")["array"] == "0-3"
    pipe.end()
    until(machine, array, state="completed")
