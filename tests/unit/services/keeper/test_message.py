"""Messages between the agent and its keeper: one line each, which an older version can read."""

import json

import msgspec
import pytest

from rankd.services.keeper.message import (
    EndJob,
    Happened,
    Hello,
    KeepJob,
    Ping,
    Pong,
    SignalJob,
    StartStep,
    StepHappened,
    end_of,
    line,
    read_ask,
    read_tell,
)
from rankd.services.keeper.proc import Launch, Session
from rankd.wire.message import Report

PLAN = Launch(
    command=["echo", "two\nlines"], environment={"A": "ü"}, cwd="/", stdin=None, stdout="/o", stderr="/e", append=False
)
REPORT = Report(allocation=3, job=9, kind="ended", at=8.0)
ASKS = [
    KeepJob(allocation=3, job=9, plan=PLAN, time_limit_s=None, grace_s=5.0),
    EndJob(allocation=3, cause="cancel", grace_s=0.0),
    SignalJob(allocation=3, number=2, step="s1"),
    StartStep(allocation=3, step="s1", command=["sh"], session=Session(name="s1", pty=True)),
    Ping(),
]
TELLS = [
    Hello(pid=7, running=[3], started=[REPORT], unwritten=[], limits="memory", pongs=True),
    Happened(report=REPORT),
    StepHappened(allocation=3, step="s1", kind="ended", exit_status=4, at=8.0, number=2, task=1),
    Pong(),
]


@pytest.mark.parametrize("message", ASKS, ids=lambda message: type(message).__name__)
def test_a_request_is_one_line(message):
    written = line(message)
    assert (written.count(b"\n"), written[-1:]) == (1, b"\n")
    assert read_ask(written) == message


@pytest.mark.parametrize("message", TELLS, ids=lambda message: type(message).__name__)
def test_an_answer_is_one_line(message):
    written = line(message)
    assert (written.count(b"\n"), written[-1:]) == (1, b"\n")
    assert read_tell(written) == message


def test_fields_of_a_newer_version_are_ignored():
    newer = json.loads(line(EndJob(allocation=3, cause="cancel", grace_s=0.0))) | {"because": "new"}
    assert read_ask(json.dumps(newer)).allocation == 3


def test_a_keeper_of_an_older_version_does_not_answer_a_ping():
    older = json.loads(line(TELLS[0]))
    del older["pongs"]
    assert read_tell(json.dumps(older)).pongs is False


def test_a_keeper_of_an_older_version_says_no_number_and_no_time_of_a_step():
    older = json.loads(line(TELLS[2]))
    for name in ("at", "number", "task"):
        del older[name]
    assert read_tell(json.dumps(older)) == StepHappened(allocation=3, step="s1", kind="ended", exit_status=4)


def test_the_end_of_a_step_has_what_it_was_recorded_as():
    order = StartStep(allocation=3, step="s1", command=["sh"], session=Session(name="s1", pty=True), number=2, task=1)
    end = end_of(order, 8.0, "no room")
    assert (end.allocation, end.step, end.kind, end.number, end.task) == (3, "s1", "ended", 2, 1)
    assert (end.at, end.message, end.exit_status) == (8.0, "no room", None)


def test_an_answer_is_no_request():
    with pytest.raises(msgspec.ValidationError):
        read_ask(line(Pong()))
