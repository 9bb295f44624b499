"""The exit statuses of ``rankd run``, and its line while the job waits."""

import time

import pytest

from rankd.client.run_status import Foreseen, Interrupts, exit_status_of, how_it_ended, waiting_line


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (("completed", None, 0, None), 0),
        (("failed", None, 3, None), 3),
        (("failed", None, None, 11), 139),
        (("failed", "start_failed", 127, None), 127),
        (("timeout", "timeout", None, 15), 124),
        (("timeout", "timeout", 0, None), 124),
        (("out_of_memory", "out_of_memory", 0, None), 137),
        (("failed", "out_of_memory", None, 9), 137),
        (("cancelled", "cancel", None, 15), 125),
        (("node_lost", "lost", None, None), 125),
        (("failed", "orphaned", None, 15), 125),
        (("failed", "no_such_user", 126, None), 125),
        (("failed", None, None, None), 125),
    ],
)
def test_the_status_tells_the_command_from_the_rest(ended, status):
    assert exit_status_of(*ended) == status


@pytest.mark.parametrize(
    ("state", "message", "said"),
    [
        ("completed", "a note", None),
        ("failed", None, None),
        ("failed", "no such file", "job 17: no such file"),
        ("out_of_memory", "killed for memory", "job 17: killed for memory"),
        ("timeout", None, "job 17 has reached its time limit"),
        ("cancelled", None, "job 17 was cancelled"),
        ("node_lost", None, "job 17 was lost with its node"),
    ],
)
def test_an_end_that_is_not_the_commands_is_said_in_a_sentence(state, message, said):
    assert how_it_ended({"id": 17, "state": state, "message": message}) == said


def test_the_line_has_what_is_known():
    record = {"id": 17, "rank": None, "state": "pending", "reason": None}
    assert waiting_line(record, None, None) == "job 17: waiting"
    assert waiting_line(record | {"rank": 2, "reason": "held"}, None, None) == "job 17: rank 2, held"
    assert waiting_line(record | {"reason": "resources"}, None, None) == "job 17: waiting for resources"
    assert waiting_line(record | {"state": "allocated", "rank": 1}, 9, None) == "job 17: starting"


@pytest.fixture
def utc(monkeypatch):
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_the_line_has_the_middle_of_the_range_and_the_range():
    record = {"id": 17, "rank": 3, "state": "pending", "reason": "resources"}
    noon = 1_700_049_600.0
    line = waiting_line(record, 40, Foreseen(noon, noon + 3600, noon - 60))
    assert line == "job 17: rank 3 of 40, waiting for resources; estimated start 12:30 (12:00 to 13:00)"
    assert waiting_line(record, 40, Foreseen(noon, None, noon)).endswith("resources; starts at 12:00 at the earliest")
    assert waiting_line(record, 40, Foreseen(noon, noon, noon)).endswith("resources; starts by 12:00 at the latest")
    later = waiting_line(record, None, Foreseen(noon, noon + 86_400, noon))
    assert later.endswith("estimated start 2023-11-16T00:00 (12:00 to 2023-11-16T12:00)")
    assert waiting_line(record | {"state": "allocated"}, 40, Foreseen(noon, noon, noon)) == "job 17: starting"


def test_interrupts_that_come_together_count_together():
    interrupts = Interrupts()
    assert not interrupts.add(0.0, 2)
    assert interrupts.add(0.5)
    assert not interrupts.add(5.0)
