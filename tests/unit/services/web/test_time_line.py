"""A job's events as a line: its states side by side, its attempts below them."""

import pytest
from builder import NOW

from rankd.core.model.job import FINAL_STATES
from rankd.services.web.time_line import WIDTH, attempts, time_line, waits


def event(name, state, at, cause=None, **detail):
    return {"event": name, "state": state, "at": NOW + at, "cause": cause, "detail": detail or None}


TWICE = [
    event("submit", "pending", 0),
    event("allocate", "allocated", 10, nodes=["n1"], rank=3, generation=7),
    event("start", "running", 11),
    event("requeue", "pending", 20, "node_lost"),
    event("allocate", "allocated", 50, nodes=["n2"], rank=1, generation=9),
    event("start", "running", 51),
]


def test_the_states_lie_side_by_side_and_fill_the_line():
    parts = time_line(TWICE, NOW + 100)
    assert [part.state for part in parts] == ["pending", "allocated", "running", "pending", "allocated", "running"]
    assert parts[0].x == 0
    assert parts[-1].x + parts[-1].width == pytest.approx(WIDTH, abs=0.5)
    assert [round(part.seconds) for part in parts] == [10, 1, 9, 30, 1, 49]


def test_an_attempt_has_its_nodes_its_rank_and_its_end():
    parts = time_line(TWICE, NOW + 100)
    first, second = attempts(TWICE, parts)
    assert (first.number, first.nodes, first.rank, first.generation) == (1, ["n1"], 3, 7)
    assert (first.started_at, first.ended_at, first.end, first.cause) == (
        NOW + 11,
        NOW + 20,
        "queued again",
        "node_lost",
    )
    assert (second.nodes, second.ended_at, second.end) == (["n2"], None, "")
    assert first.x == parts[1].x
    assert first.x + first.width == pytest.approx(parts[3].x, abs=0.2)
    assert second.x + second.width == pytest.approx(WIDTH, abs=0.5)


def test_an_attempt_that_never_started_has_an_end_all_the_same():
    events = [*TWICE[:2], event("take_back", "pending", 15)]
    [one] = attempts(events, time_line(events, NOW + 20))
    assert (one.started_at, one.end) == (None, "taken back")


@pytest.mark.parametrize("state", sorted(state.value for state in FINAL_STATES))
def test_every_final_state_ends_the_attempt(state):
    events = [*TWICE[:3], event("some_event", state, 15, "why")]
    [one] = attempts(events, time_line(events, NOW + 20))
    assert (one.ended_at, one.end, one.cause) == (NOW + 15, state.replace("_", " "), "why")


def test_a_job_without_events_has_no_line():
    assert (time_line([], NOW), attempts([], [])) == ([], [])


def test_what_a_job_waited_for_lies_below_its_wait_for_the_first_start():
    parts = time_line(TWICE, NOW + 100)
    shown = waits([("dependency", 0.0), ("resources", 8.0), ("reserved", 0.4), ("starting", 2.0)], parts)
    assert [(one.cause, one.css) for one in shown] == [("resources", "f1"), ("starting", "f3")]
    assert shown[0].x == 0
    assert shown[0].width == pytest.approx(4 * shown[1].width, abs=0.5)
    assert shown[1].x + shown[1].width == pytest.approx(parts[2].x, abs=0.2), "the run begins there"
    assert waits([("resources", 0.9)], parts) == []
