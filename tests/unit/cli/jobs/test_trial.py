"""What ``rankd submit --test-only`` prints. How it asks: ``tests/system/test_scripts.py``."""

import json

import pytest

from rankd.cli.jobs.trial import lines_of, print_refusal
from rankd.cli.main import main
from rankd.core.errors import Refused

ANSWER = {"user": "alice", "account": "physics", "queue": "root.a", "partition": "default", "qos": "normal"}


def test_the_names_that_the_job_would_have_are_shown():
    assert lines_of(ANSWER) == [
        "The job would be accepted: user alice, account physics, queue root.a, QoS normal",
    ]
    assert lines_of({**ANSWER, "tasks": 4})[0].endswith(", QoS normal, 4 tasks")


def test_a_refusal_is_json_where_json_is_asked_for(capsys):
    assert print_refusal(Refused("unknown_queue", "unknown queue 'x'", "queue")) == 1
    assert json.loads(capsys.readouterr().out) == {
        "accepted": [],
        "rejected": [{"index": 0, "code": "unknown_queue", "message": "unknown queue 'x'", "field": "queue"}],
    }


def test_each_reason_for_waiting_is_a_line():
    waits = [
        {"reason": "held", "reason_fact": "it asks to be held"},
        {"reason": "dependency", "reason_fact": "afterok of job 17 (running)"},
    ]
    assert lines_of({**ANSWER, "waits": waits})[1:] == [
        "It would wait: held (it asks to be held)",
        "It would wait: dependency (afterok of job 17 (running))",
    ]


@pytest.mark.parametrize("count", ["999999999999", "5000001"])
def test_more_jobs_than_any_site_takes_are_refused_before_they_take_memory(count, capsys):
    assert main(["submit", "--count", count, "--print-request", "--", "true"]) == 2
    assert "submits at most 5,000,000 jobs; give at most --count 5000000, or one array" in capsys.readouterr().err


def test_the_jobs_of_a_document_count_too(tmp_path, capsys):
    (tmp_path / "two.json").write_text('[{"command": ["true"]}, {"command": ["true"]}]')
    assert main(["submit", "--count", "2500001", "--file", str(tmp_path / "two.json"), "--print-request"]) == 2
    assert "--count 2500001 of 2 jobs:" in capsys.readouterr().err
