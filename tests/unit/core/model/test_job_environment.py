"""What a job sees, and how its end is read."""

from __future__ import annotations

import pytest

from rankd.core.model.job import JobRequest
from rankd.core.model.job_environment import (
    JobPlace,
    exit_of,
    expand_pattern,
    job_environment,
    job_path,
    simulated_run,
)

PLACE = JobPlace(job=17, allocation=5, user="alice", name="hello", nodes=["n0", "n1"], rank=1)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("job-%j.out", "job-17.out"),
        ("%u/%x-%n", "alice/hello-n1"),
        ("100%%j", "100%j"),
        ("%q%", "%q%"),
        ("%4j-%3A_%2a.%5x.%99999j", "0017-017_00.hello.0000000017"),
        ("%4q", "%4q"),
        ("", ""),
    ],
)
def test_patterns_expand_once_and_leave_the_rest(pattern, path):
    assert expand_pattern(pattern, PLACE) == path


def test_a_name_leads_into_no_other_directory_and_is_not_expanded_again():
    place = JobPlace(job=1, allocation=1, user="a", name="../%j", nodes=["n"], rank=0)
    assert expand_pattern("out/%x", place) == "out/.._%j"


@pytest.mark.parametrize(
    ("pattern", "cwd", "path"), [("a", "/w", "/w/a"), ("a/b", "/", "/a/b"), ("/o/%j", "/w", "/o/17")]
)
def test_relative_paths_are_relative_to_the_working_directory(pattern, cwd, path):
    assert job_path(pattern, PLACE, cwd) == path


def test_only_the_basics_of_the_agents_environment_are_passed_on():
    base = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "AWS_SECRET": "x"}
    environment = job_environment(base, JobRequest(command=["true"]), PLACE)
    assert {key for key in environment if not key.startswith("RANKD_")} == {
        "PATH", "HOME", "LC_ALL", "PYTHONUNBUFFERED",
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    }  # fmt: skip


def test_the_request_overrides_the_agent_and_rankd_overrides_the_request():
    request = JobRequest(command=["true"], env={"PATH": "/mine", "RANKD_USER": "root"})
    environment = job_environment({"PATH": "/bin"}, request, PLACE)
    assert (environment["PATH"], environment["RANKD_USER"]) == ("/mine", "alice")


def test_there_is_always_a_path():
    assert "/bin" in job_environment({}, JobRequest(command=["true"]), PLACE)["PATH"]


def test_an_end_is_an_exit_status_or_a_signal():
    assert exit_of(3) == (3, None)
    assert exit_of(-15) == (None, 15)


@pytest.mark.parametrize(
    ("command", "env", "expected"),
    [
        (["sleep", "2.5"], {}, (2.5, 0)),
        (["/bin/sleep", "0"], {}, (0, 0)),
        (["sleep", "-1"], {}, (1, 0)),
        (["sleep", "inf"], {}, (1, 0)),
        (["sleep", "soon"], {}, (1, 0)),
        (["sleep"], {}, (1, 0)),
        (["make"], {}, (1, 0)),
        ([], {}, (1, 0)),
        (["false"], {}, (1, 1)),
        (["sleep", "9"], {"RANKD_SIMULATE_S": "0.5", "RANKD_SIMULATE_EXIT": "3"}, (0.5, 3)),
        (["false"], {"RANKD_SIMULATE_EXIT": "0"}, (1, 0)),
        (["false"], {"RANKD_SIMULATE_EXIT": "no"}, (1, 1)),
        (["true"], {"RANKD_SIMULATE_EXIT": "256"}, (1, 0)),
    ],
)
def test_a_simulated_run_follows_command_and_variables(command, env, expected):
    assert simulated_run(JobRequest(command=command, env=env)) == expected


def test_output_of_python_is_not_buffered_unless_the_job_says_so():
    assert job_environment({}, JobRequest(command=["true"]), PLACE)["PYTHONUNBUFFERED"] == "1"
    own = JobRequest(command=["true"], env={"PYTHONUNBUFFERED": ""})
    assert job_environment({}, own, PLACE)["PYTHONUNBUFFERED"] == ""
