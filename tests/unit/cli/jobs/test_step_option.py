import argparse

import pytest

from rankd.cli.jobs.run import FAILED, NOT_FOR_RUN, run
from rankd.cli.jobs.step_option import HONOURED, OF_THE_JOB, check_step, script_warnings
from rankd.cli.main import _parser
from rankd.client.batch.option import add_job_options
from rankd.core.errors import Refused


def given(*words):
    parser = argparse.ArgumentParser()
    add_job_options(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("words", [(), ("-N", "2", "-n", "4"), ("-D", "/tmp"), ("--retry-for", "5")])
def test_what_a_step_has_says_nothing(words):
    assert check_step(given(*words)) is None


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "file"), ("-e", "file"), ("-i", "file"), ("-t", "5"), ("--export", "A=1"), ("-w", "n1"), ("-x", "n1"),
        ("-H",), ("-d", "afterok:1"), ("-b", "now"), ("-a", "0-3"), ("--count", "2"), ("--wrap", "true"),
    ],
)  # fmt: skip
def test_what_would_change_a_step_is_refused_by_its_name(words):
    with pytest.raises(Refused, match=r"^--[a-z-]+ can't be given for a step inside a job; leave it out"):
        check_step(given(*words))


def test_what_its_job_has_anyway_is_warned_about():
    assert check_step(given("--mem", "4G", "--gres", "gpu:1")) == (
        "--mem, --gres have no effect inside a job: a step has all that its job has"
    )
    assert check_step(given("-J", "name")).startswith("--name has no effect")


def test_every_name_is_an_option():
    parser = argparse.ArgumentParser()
    add_job_options(parser)
    assert {action.dest for action in parser._actions} >= HONOURED | OF_THE_JOB


@pytest.mark.parametrize("option", ["--parsable", "--count=1", "--wait", "--array=0-3"])
def test_options_that_are_not_for_run_are_refused_and_not_in_its_help(option, monkeypatch, capsys):
    monkeypatch.delenv("RANKD_JOB_ID", raising=False)
    assert run(_parser("run").parse_args(["run", option, "--", "true"])) == FAILED
    assert f"`rankd run` has no {option.partition('=')[0]}; use `rankd submit`" in capsys.readouterr().err
    hidden = argparse.ArgumentParser()
    add_job_options(hidden, hidden=NOT_FOR_RUN)
    assert option.partition("=")[0] not in hidden.format_help()


@pytest.mark.parametrize(
    ("line", "tasks", "said"),
    [
        ("srun -o out --time=5 ./a -t", None, ["line 2: srun refuses --time, --output inside a job, and ends with"]),
        ("srun --cpu-bind=cores ./a", None, ["line 2: srun refuses --cpu-bind inside a job"]),
        ("srun -l --mem 1G -N 1 --dir=/d ./a -o x > y", None, []),
        ("srun ./a && srun -n 4 ./b", 4, ["line 2: srun without -n runs once on each node; write srun -n 4 for 4"]),
        ("srun $OPTIONS ./a", 4, []),
        ("srun ./a", 1, []),
        ("srun -n two ./a", 4, []),
        ("srun 'open", 4, []),
    ],
)
def test_lines_with_srun_are_warned_of_at_submission(line, tasks, said):
    found = list(script_warnings(f"#!/bin/sh\n{line}\n", tasks))
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))
