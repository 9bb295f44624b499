"""What ``rankd submit --test-only`` prints. How it asks: ``tests/system/test_scripts.py``."""

import json

from rankd.cli.jobs.trial import lines_of, print_refusal
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
