"""What Slurm's page "Job Array Support" promises, asked of rankd: batch scripts with `#SBATCH` lines, real processes.

Each test is one topic of that page. Where rankd means something else, docs/how-to/slurm.md says so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from system.test_array import ended, record, tasks
from watch import comes

WRITES = """#!/bin/sh
#SBATCH --job-name=shards
#SBATCH --array={listed}
{more}
echo "$SLURM_JOB_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT" \
    "$SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_TASK_STEP $SLURM_JOB_NAME" \
    "$RANKD_JOB_ID $RANKD_ARRAY_JOB_ID $RANKD_ARRAY_TASK_ID"
"""


@pytest.fixture(scope="module")
def machine(shared_machine):
    """One site for all tests of this file; its node runs jobs for real."""
    shared_machine.start()
    return shared_machine


@pytest.fixture
def sbatch(machine, tmp_path):
    """Submits a script from a directory of its own; its id."""

    def submit(text: str, *options: str, arguments: tuple[str, ...] = ()) -> int:
        script = tmp_path / "job.sh"
        script.write_text(text)
        return int(machine.rankd("submit", "--parsable", "-D", str(tmp_path), *options, str(script), *arguments))

    return submit


def held(listed: str) -> str:
    return f"#!/bin/sh\n#SBATCH -a {listed} -H -o /dev/null\n"


def names(machine, job: int, *options: str) -> list[str]:
    """The column JOBID."""
    return [line.split()[0] for line in machine.rankd("queue", "-h", "-j", str(job), *options).splitlines()]


def states(machine, array: int) -> dict[int, str]:
    return {row["array_task"]: row["state"] for row in tasks(machine, array)}


# --- submitting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "pending", "limit"),
    [
        ("0-31", "0-31", None),
        ("1,3,5,7", "1-7:2", None),
        ("1-7:2", "1-7:2", None),
        ("0-15%4", "0-15", 4),
        ("1-7:2,20", "1-7:2,20", None),
        ("010-012", "10-12", None),
    ],
)
def test_lists_of_indices(machine, sbatch, listed, pending, limit):
    array = sbatch(held(listed))
    row = record(machine, array)
    assert (row["array"], row["array_limit"], row["state"]) == (pending, limit, "pending")
    machine.rankd("cancel", str(array))


@pytest.mark.parametrize(
    "listed", ["3-1", "1-3:0", "1,1", "1-3,2", "", "1-", "-1", "a", "1.5", "0-9%0", "0-9%", "0x10", "1 2"]
)
def test_lists_that_are_wrong_are_refused(machine, tmp_path, listed):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    told = machine.rankd_fails("submit", f"--array={listed}", str(tmp_path / "job.sh"), status=2)
    assert "write 0-99, 1,3,7-9 or 0-99:2" in told or "from 1 on" in told or "named twice" in told


def test_an_index_or_a_number_of_tasks_that_is_too_large_is_refused(machine, tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --array=4194304\n")
    assert "above 4194303" in machine.rankd_fails("submit", str(tmp_path / "job.sh"))
    assert "the most is 1000000" in machine.rankd_fails("submit", "-a", "0-1000000", str(tmp_path / "job.sh"))


def test_the_command_line_replaces_the_list_of_the_script(machine, sbatch):
    array = sbatch(held("0-9"), "-a", "2-3")
    assert record(machine, array)["array"] == "2-3"
    machine.rankd("cancel", str(array))


# --- environment and files ------------------------------------------------------------------------------------


def test_tasks_of_a_script_have_slurms_variables_and_write_slurms_files(machine, sbatch, tmp_path):
    array = sbatch(WRITES.format(listed="1-3", more=""))
    assert ended(machine, array)["state"] == "completed"
    for row in tasks(machine, array):
        index, own = row["array_task"], row["id"]
        text = (tmp_path / f"slurm-{array}_{index}.out").read_text()
        assert text == f"{own} {array} {index} 3 1 3 1 shards {own} {array} {index}\n"
    assert len(list(tmp_path.glob("slurm-*"))) == 3


def test_the_variables_of_a_list_with_a_step(machine, sbatch, tmp_path):
    array = sbatch(WRITES.format(listed="4-10:2%2", more="#SBATCH -o out/%A-%a.%j.txt -e out/%A-%a.err"))
    assert ended(machine, array)["state"] == "completed"
    found = {path.name: path.read_text().split()[2:7] for path in (tmp_path / "out").glob("*.txt")}
    assert found == {
        f"{array}-{row['array_task']}.{row['id']}.txt": [str(row["array_task"]), "4", "4", "10", "2"]
        for row in tasks(machine, array)
    }
    assert {path.name for path in (tmp_path / "out").glob("*.err")} == {f"{array}-{i}.err" for i in (4, 6, 8, 10)}


def test_a_job_that_is_no_array_has_no_variables_of_one(machine, sbatch, tmp_path):
    job = sbatch('#!/bin/sh\n#SBATCH -o %A_%a\necho "${SLURM_ARRAY_JOB_ID-unset} ${SLURM_ARRAY_TASK_ID-unset}"\n')
    ended(machine, job)
    assert (tmp_path / f"{job}_0").read_text() == "unset unset\n"


def test_a_task_may_cancel_itself(machine, sbatch):
    """By the name that the page gives: ${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}."""
    text = (
        "#!/bin/sh\n#SBATCH -a 1-2 -o %a.out\n"
        f"test $SLURM_ARRAY_TASK_ID = 1 || {_command()} cancel --dir {machine.directory} "
        '"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; test $SLURM_ARRAY_TASK_ID = 1 || exec sleep 1000\n'
    )
    array = sbatch(text)
    assert ended(machine, array)["state"] == "failed"
    assert states(machine, array) == {1: "completed", 2: "cancelled"}


def _command() -> str:
    import sys

    return str(Path(sys.executable).with_name("rankd"))


# --- queue ----------------------------------------------------------------------------------------------------


def test_the_queue_folds_what_waits_and_shows_each_task_that_runs(machine, sbatch):
    array = sbatch("#!/bin/sh\n#SBATCH -a 1-8%2 -o /dev/null\nexec sleep 1000\n")
    comes(lambda: list(states(machine, array).values()).count("running") >= 2)
    assert sorted(names(machine, array)) == [f"{array}_1", f"{array}_2", f"{array}_[3-8%2]"]
    assert set(names(machine, array, "-r")) == {f"{array}_{index}" for index in range(1, 9)}
    assert set(names(machine, array, "-t", "R")) == {f"{array}_1", f"{array}_2"}
    assert names(machine, array, "-t", "PD") == [f"{array}_[3-8%2]"]
    comes(lambda: record(machine, array)["reason"] == "array limit")
    some = machine.rankd("queue", "-h", "-j", f"{array}_1,{array}_2").splitlines()
    assert sorted(line.split()[0] for line in some) == [f"{array}_1", f"{array}_2"]
    prio = machine.rankd("prio", "-h", "-j", f"{array}_[4-5]").split()
    assert prio[0] == str(array), "what waits has one place in the ranking"
    ids = machine.rankd("queue", "-h", "-j", str(array), "-o", "%A %F %i").splitlines()
    assert {line.split()[1] for line in ids} == {str(array)}
    assert len({line.split()[0] for line in ids}) == 3
    machine.rankd("cancel", f"{array}_[3-8]")
    assert record(machine, array)["state"] == "running"
    assert set(names(machine, array, "-t", "R")) == {f"{array}_1", f"{array}_2"}, "no row for the array itself"
    machine.rankd("cancel", str(array))
    ended(machine, array)
    assert set(states(machine, array).values()) == {"cancelled"}


# --- scancel --------------------------------------------------------------------------------------------------


def test_some_tasks_and_then_all_are_cancelled(machine, sbatch):
    array = sbatch(held("0-19"))
    machine.rankd("cancel", f"{array}_[1-3]")
    machine.rankd("cancel", f"{array}_4", f"{array}_5")
    assert (record(machine, array)["array"], states(machine, array)) == (
        "0,6-19",
        dict.fromkeys(range(1, 6), "cancelled"),
    )
    machine.rankd("cancel", str(array))
    assert record(machine, array)["state"] == "cancelled"


# --- scontrol -------------------------------------------------------------------------------------------------


def test_one_task_several_or_all_are_held_and_released(machine, sbatch):
    array = sbatch("#!/bin/sh\n#SBATCH -a 1-6 -o /dev/null -b now+1hour\n")
    machine.rankd("hold", f"{array}_2")
    machine.rankd("hold", f"{array}_[4-5]")
    assert {row["array_task"]: row["held"] for row in tasks(machine, array)} == {2: 1, 4: 1, 5: 1}
    assert record(machine, array)["held"] == 0
    machine.rankd("hold", str(array))
    assert record(machine, array)["held"] == 1
    machine.rankd("release", f"{array}_4")
    assert {row["array_task"]: row["held"] for row in tasks(machine, array)} == {2: 1, 4: 0, 5: 1}
    machine.rankd("release", str(array))
    assert {row["held"] for row in (record(machine, array), *tasks(machine, array))} == {0}
    machine.rankd("update", str(array), "-b", "now")
    assert ended(machine, array)["state"] == "completed"
    assert [row["array_task"] for row in tasks(machine, array)] == [1, 2, 3, 4, 5, 6]


def test_one_task_or_the_whole_array_is_updated(machine, sbatch):
    array = sbatch(held("0-4"))
    machine.rankd("update", f"{array}_[0-1]", "-J", "first")
    machine.rankd("update", str(array), "--comment", "all")
    assert [(row["name"], row["comment"]) for row in tasks(machine, array)] == [("first", "all")] * 2
    row = record(machine, array)
    assert (row["name"], row["comment"], row["array"]) == ("job.sh", "all", "2-4")
    machine.rankd("update", str(array), "--array-limit", "1")
    assert record(machine, array)["array_limit"] == 1
    machine.rankd("cancel", str(array))


def test_a_task_is_shown_by_its_name(machine, sbatch):
    array = sbatch(held("0-4%2"))
    shown = machine.rankd("show", f"{array}_3")
    assert re.search(rf"^id +{array}$", shown, re.MULTILINE)
    assert re.search(r"^array_task +3$", shown, re.MULTILINE)
    assert machine.rankd("show", "--script", f"{array}_3") == held("0-4%2")
    assert tasks(machine, array) == []
    machine.rankd("cancel", str(array))


# --- accounting -----------------------------------------------------------------------------------------------


def test_accounting_lists_the_tasks(machine, sbatch):
    array = sbatch("#!/bin/sh\n#SBATCH -a 1-3 -o /dev/null\nexit $((SLURM_ARRAY_TASK_ID == 2))\n")
    ended(machine, array)
    lines = machine.rankd("acct", str(array), "-H", "-P", "-o", "JobID,State,ExitCode").splitlines()
    assert lines == [
        f"{array}|FAILED|1:0",
        f"{array}_1|COMPLETED|0:0",
        f"{array}_2|FAILED|1:0",
        f"{array}_3|COMPLETED|0:0",
    ]
    rows = json.loads(machine.rankd("acct", f"{array}_2", "--json"))
    assert [(row["array_job"], row["array_task"]) for row in rows] == [(array, 2)]
