"""The exit statuses of ``rankd run``, and its line while the job waits."""

import pytest

from rankd.client.run_status import Interrupts, exit_status_of, waiting_line


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


def test_the_line_has_what_is_known():
    record = {"id": 17, "rank": None, "state": "pending", "reason": None}
    assert waiting_line(record, None, None) == "job 17: waiting"
    assert waiting_line(record | {"rank": 2, "reason": "held"}, None, None) == "job 17: rank 2, held"
    assert waiting_line(record | {"reason": "resources"}, None, None) == "job 17: waiting for resources"
    assert waiting_line(record | {"state": "allocated", "rank": 1}, 9, None) == "job 17: starting"
    line = waiting_line(record, None, (1e9, 1e9 - 900, 1e9 + 900))
    assert line.startswith("job 17: waiting; estimated start ")
    assert " to " in line


def test_interrupts_that_come_together_count_together():
    interrupts = Interrupts()
    assert not interrupts.add(0.0, 2)
    assert interrupts.add(0.5)
    assert not interrupts.add(5.0)
