"""Reading a script, and the job that `rankd submit SCRIPT` makes of it."""

import io
import os
import sys
from pathlib import Path

import msgspec
import pytest

from rankd.cli.jobs.submit import jobs_of
from rankd.cli.main import _parser, main
from rankd.client.batch.script import read_script
from rankd.core.admission.script_check import MOST_BYTES
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("RANKD_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def submitted(*words, text="#!/bin/sh\n"):
    """The job that is sent for train.sh with this text."""
    Path("train.sh").write_text(text)
    (job,) = jobs_of(_parser("submit").parse_args(["submit", *words]))
    assert msgspec.convert(job, JobRequest), "the daemon reads what is sent"
    return job


def test_a_script_has_its_name_its_arguments_and_sbatchs_defaults(here, monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    job = submitted("-N", "2", "train.sh", "-N", "3", "--", "a b")
    assert (job["command"], job["script"]) == (["train.sh", "-N", "3", "--", "a b"], "#!/bin/sh\n")
    assert (job["nodes"], job["cwd"], job["stdout"], job["stderr"]) == (2, str(here), "job-%j.out", "job-%j.out")
    assert job["env"]["COLOUR"] == "red"
    assert "slurm_env" not in job


def test_an_interpreter_that_this_machine_lacks_is_named(capsys):
    submitted("train.sh", text="#!/no/such/python -u\n")
    assert "line 1: there is no /no/such/python on this machine; " in capsys.readouterr().err
    submitted("train.sh", text="#!/usr/bin/env python3\n")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("-o%N.log", "'%N' has no meaning in the name of a file; write %n for the node; known: %j"),
        ("-e%t", "'%t' has no meaning in the name of a file; a job has one file; known"),
    ],
)
def test_letters_without_a_meaning_are_refused_as_in_lines_of_sbatch(option, said):
    with pytest.raises(Refused) as caught:
        submitted(option, "train.sh")
    assert said in caught.value.message
    assert submitted("-o%4j.%u.%%.log", "train.sh")["stdout"] == "%4j.%u.%%.log"


def test_a_command_keeps_its_own_defaults(monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    job = submitted("--", "train.sh", "a")
    assert not {"script", "env", "stdout", "stderr"} & job.keys()


def test_a_script_for_slurm_gets_slurms_variables_and_file(here):
    job = submitted("train.sh", text="#!/bin/sh\n#SBATCH -n 4 -c 2\n")
    assert (job["slurm_env"], job["stdout"], job["stderr"]) == (True, "slurm-%j.out", "slurm-%j.out")
    assert job["env"]["SLURM_SUBMIT_DIR"] == str(here)
    assert job["env"]["SLURM_SUBMIT_HOST"] == os.uname().nodename
    assert (job["env"]["SLURM_NTASKS"], job["env"]["SLURM_CPUS_PER_TASK"]) == ("4", "2")
    assert submitted("--slurm-env", "train.sh")["stdout"] == "job-%j.out"


def test_an_output_that_is_named_takes_both():
    job = submitted("-o", "log", "train.sh")
    assert (job["stdout"], job["stderr"]) == ("log", "log")
    assert submitted("-e", "err", "train.sh")["stderr"] == "err"


def test_a_script_can_come_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n#RANKD -J x\n")))
    job = submitted("-", "a")
    assert (job["command"], job["name"]) == (["stdin", "a"], "x")


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        (b"", "bad_script", "does not begin with #!"),
        (b"\x7fELF\2\0", "bad_script", "is a program, .*write: rankd submit -- ./train.sh$"),
        (b"echo", "bad_script", "first line such as #!/bin/sh, or write: rankd submit -- sh train.sh$"),
        (b"\n #!/bin/sh", "bad_script", "has empty lines, blanks or a byte order mark before its #!"),
        (b"\xef\xbb\xbf#!/bin/sh", "bad_script", "a byte order mark"),
        (b"#!/bin/sh\necho \xe4\n", "bad_script", "not text in UTF-8 .line 2."),
        (b"#!/bin/sh\r\n", "bad_script", "dos2unix"),
        (b"#!/bin/sh\n" + b"#" * MOST_BYTES, "script_too_large", "the largest script"),
    ],
)
def test_what_is_not_a_script_is_refused_before_it_is_sent(content, code, why):
    Path("train.sh").write_bytes(content)
    with pytest.raises(Refused, match=why) as refused:
        read_script(["train.sh"])
    assert refused.value.code == code


def test_the_name_of_a_file_says_which_program_runs_it():
    Path("train.py").write_text("import torch\n")
    with pytest.raises(Refused, match=r"#!/usr/bin/env python3, or write: rankd submit -- python3 train.py -v"):
        read_script(["train.py", "-v"])


@pytest.mark.parametrize("words", [["python3", "train.py"], ["."], ["no such"]])
def test_a_command_without_dashes_is_told_what_to_write(words, capsys):
    assert main(["submit", *words]) == 2
    import shlex

    assert f"to run a command, write: rankd submit -- {shlex.join(words)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--file", "x", "train.sh"],
        ["--wrap", "x", "train.sh"],
        ["--wrap", "x", "--", "true"],
        ["--wrap", "x", "--file", "y"],
        ["--file", "x", "--", "true"],
    ],
)
def test_only_one_thing_is_submitted(words):
    with pytest.raises(Refused, match=r"not both|not two"):
        submitted(*words)


def test_a_wrapped_line_is_a_script_of_sbatch(here, monkeypatch, capsys):
    monkeypatch.setenv("COLOUR", "red")
    job = submitted("-a", "0-3", "--wrap", "echo $SLURM_JOB_ID | srun cat")
    assert (job["command"], job["script"]) == (["wrap"], "#!/bin/sh\necho $SLURM_JOB_ID | srun cat\n")
    assert (job["cwd"], job["stdout"], job["stderr"]) == (str(here), "slurm-%A_%a.out", "slurm-%A_%a.out")
    unnamed = submitted("-o", "", "-e", "", "--wrap", "true")
    assert (unnamed["stdout"], unnamed["stderr"]) == ("slurm-%j.out", "slurm-%j.out"), "as with sbatch"
    assert (job["slurm_env"], job["env"]["COLOUR"]) == (True, "red")
    assert job["env"]["SLURM_SUBMIT_DIR"] == str(here)
    assert capsys.readouterr().err.startswith("rankd: the line calls srun, which is `rankd run` there")


def test_a_line_of_an_odd_character_is_refused():
    with pytest.raises(Refused, match="NUL character") as refused:
        submitted("--wrap", "echo \0")
    assert refused.value.code == "bad_script"


def test_the_request_can_be_looked_at(capsys):
    Path("train.sh").write_text("#!/bin/sh\n#SBATCH -p gpu\n#RANKD --print-request\n")
    assert main(["submit", "train.sh"]) == 0
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert (shown["queue"], shown["script"][:9]) == ("gpu", "#!/bin/sh")
