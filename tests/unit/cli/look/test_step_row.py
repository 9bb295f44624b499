"""Steps as rows of ``rankd acct``."""

import pytest

from rankd.cli.look.step_row import MOST_JOBS, step_row, with_steps
from rankd.core.errors import Refused

JOB = {"id": 17, "cores": 4.0, "nodes": 2, "name": "fit", "cpu_s": 9.0, "waited_queue_s": 1.0, "started_at": 1.0}
STEP = {
    "number": 3,
    "command": "/opt/fit -n 3",
    "nodelist": "n1",
    "started_by": "ann",
    "started_at": 2.0,
    "ended_at": 5.0,
    "exit_status": 0,
    "signal": None,
    "cause": None,
    "tasks": 1,
}


class Source:
    """What is asked of the records: each job has these steps."""

    def __init__(self, steps, count):
        self.asked, self._steps, self._count = [], steps, count

    def job(self, name):
        self.asked.append(name)
        return {"steps": self._steps, "step_count": self._count}


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "completed"),
        ({"ended_at": None, "exit_status": None}, "running"),
        ({"exit_status": 1}, "failed"),
        ({"exit_status": None, "signal": 9}, "failed"),
        ({"exit_status": None, "cause": "lost"}, "failed"),
        ({"exit_status": None, "cause": "job_ended"}, "cancelled"),
    ],
)
def test_how_a_step_ended_is_in_the_words_of_jobs(changed, state):
    row = step_row(JOB, STEP | changed)
    assert (row["id"], row["step"], row["name"], row["state"]) == (17, 3, "fit", state)
    assert (row["cores"], row["nodes"], row["cpu_s"]) == (2.0, 1, None), "a share of the cores, no use of its own"


@pytest.mark.parametrize(("command", "name"), [("'a b/c d' x", "c d"), ("sh -c 'long and cut…", "sh"), ("", "")])
def test_the_name_is_the_programs(command, name):
    assert step_row(JOB, STEP | {"command": command})["name"] == name


def test_steps_follow_their_job_and_what_is_left_out_is_said():
    source = Source([STEP], 30)
    waits = JOB | {"id": 18, "started_at": None}
    array = JOB | {"id": 19, "started_at": None, "tasks": 5}
    task = JOB | {"id": 21, "array_job": 20, "array_task": 1}
    rows, said = with_steps(source, [JOB, waits, array, task])
    assert [(row["id"], row.get("step")) for row in rows] == [
        (17, None),
        (17, 3),
        (18, None),
        (19, None),
        (21, None),
        (21, 3),
    ]
    assert source.asked == [17, "20_1"]
    assert said == [
        "job 17 had 30 steps; the newest 1 are shown, the view job_step has more",
        "job 20_1 had 30 steps; the newest 1 are shown, the view job_step has more",
    ]


def test_so_many_jobs_are_refused_before_the_first_question():
    source = Source([], 0)
    with pytest.raises(Refused, match="at most 1000 jobs"):
        with_steps(source, [JOB] * (MOST_JOBS + 1))
    assert source.asked == []
