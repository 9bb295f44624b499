"""How a job ends, from what its nodes said."""

import pytest

from rankd.core.model.job import Event
from rankd.core.model.outcome import NodeEnd, decide_end

WELL = NodeEnd(exit_status=0)
TERMINATED = NodeEnd(signal=15, cause="cancel")


def test_a_job_that_ended_well_before_its_cancellation_reached_it_has_completed():
    end = decide_end([WELL], cancelled=True, may_requeue=True)
    assert (end.event, end.cause) == (Event.COMPLETE, None)


def test_a_cancelled_job_is_cancelled_whatever_became_of_it():
    for ended in (TERMINATED, NodeEnd(exit_status=1), NodeEnd(cause="node_lost"), NodeEnd(signal=9, cause="timeout")):
        end = decide_end([ended], cancelled=True, may_requeue=True)
        assert (end.event, end.cause) == (Event.CANCEL, "cancel")


@pytest.mark.parametrize("cause", ["agent_stopped", "agent_restarted", "lost", "node_lost"])
@pytest.mark.parametrize(("may", "event"), [(True, Event.REQUEUE), (False, Event.LOSE_NODE)])
def test_what_is_no_fault_of_the_job_is_requeued_where_it_may_be(cause, may, event):
    end = decide_end([NodeEnd(cause=cause)], cancelled=False, may_requeue=may)
    assert (end.event, end.cause) == (event, cause)


@pytest.mark.parametrize(
    ("ended", "event"),
    [
        (NodeEnd(exit_status=3), Event.FAIL),
        (NodeEnd(signal=9, cause="out_of_memory"), Event.EXCEED_MEMORY),
        (NodeEnd(exit_status=0, cause="out_of_memory"), Event.EXCEED_MEMORY),
        (NodeEnd(exit_status=127, cause="start_failed"), Event.FAIL),
        (NodeEnd(signal=15, cause="timeout"), Event.TIME_OUT),
        (NodeEnd(exit_status=0, cause="timeout"), Event.TIME_OUT),
    ],
)
def test_other_ends_are_the_jobs_own(ended, event):
    assert decide_end([ended], cancelled=False, may_requeue=True).event is event


def test_the_first_node_that_did_not_end_well_decides():
    ends = [WELL, NodeEnd(exit_status=3), NodeEnd(signal=15, cause="gang")]
    end = decide_end(ends, cancelled=False, may_requeue=True)
    assert (end.event, end.exit_status, end.cause) == (Event.FAIL, 3, None)


def test_a_part_that_was_killed_for_memory_decides_before_one_that_failed_earlier():
    ends = [NodeEnd(exit_status=1), NodeEnd(exit_status=0, cause="out_of_memory")]
    end = decide_end(ends, cancelled=False, may_requeue=True)
    assert (end.event, end.exit_status, end.cause) == (Event.EXCEED_MEMORY, 0, "out_of_memory")


@pytest.mark.parametrize(
    ("started", "requeue", "is_left", "event"),
    [
        (False, False, True, Event.TAKE_BACK),
        (True, True, True, Event.REQUEUE),
        (True, False, True, Event.LOSE_NODE),
        (False, True, False, Event.LOSE_NODE),
    ],
)
def test_a_failed_prolog_lets_a_job_wait_again_until_its_limit_of_requeues(started, requeue, is_left, event):
    """So a job with which no prolog succeeds drains a few nodes, not all."""
    ends = [NodeEnd(cause="prolog_failed"), TERMINATED]
    end = decide_end(ends, cancelled=False, may_requeue=requeue and is_left, started=started, is_left=is_left)
    assert (end.event, end.cause) == (event, "prolog_failed")


def test_a_job_that_was_cancelled_during_a_prolog_that_failed_is_cancelled():
    end = decide_end([NodeEnd(cause="prolog_failed")], cancelled=True, may_requeue=True, started=False, is_left=True)
    assert end.event is Event.CANCEL
