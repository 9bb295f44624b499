"""The steps of a job on a screen."""

from rankd.cli.look.step_table import print_steps
from rankd.core.session.step_word import state_of


def step(number=0, **fields):
    plain = {
        "number": number, "command": "sh -c 'exit 3'", "tasks": 2, "nodelist": "n[1-2]", "started_by": "alice",
        "started_at": 1.0, "ended_at": 66.0, "exit_status": 3, "signal": None, "cause": None,
    }  # fmt: skip
    return plain | fields


def test_a_line_per_step_and_how_many_there_are(capsys):
    print_steps([step(40), step(41, ended_at=None, exit_status=None)], 42)
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "42 steps; the newest 2"
    assert said[2].split() == ["STEP", "TASKS", "NODES", "BY", "STARTED", "ELAPSED", "STATE", "COMMAND"]
    assert "1:05" in said[3]
    assert said[3].split()[6:] == ["exit", "3", "sh", "-c", "'exit", "3'"]
    assert "running" in said[4]


def test_one_step_is_singular_and_all_of_them_are_not_the_newest(capsys):
    print_steps([step()], 1)
    assert capsys.readouterr().out.splitlines()[1] == "1 step"


def test_a_command_can_not_forge_a_line(capsys):
    print_steps([step(command="a\nb\x1b[2J")], 1)
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 4
    assert "\x1b[2J" not in out


def test_the_states():
    assert state_of(step(cause="job_ended", exit_status=None)) == "ended with its job"
    assert state_of(step(cause="lost", exit_status=None)) == "lost"
    assert state_of(step(exit_status=None, signal=15)) == "signal TERM"
