"""Cancel, hold and release, decided without a database."""

from __future__ import annotations

import msgspec
import pytest

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import ACTIONS, cancel, hold, permitted, release, signalled
from rankd.core.change.job_change import Change, EndRequest, JobState
from rankd.core.errors import Refused
from rankd.core.model.job import ACTIVE_STATES, FINAL_STATES, URGENCY_DEFAULT, Event, State

ALICE, ROOT = Submitter("alice", privileged=False), Submitter("root", privileged=True)
PENDING = JobState(
    user="alice",
    state=State.PENDING,
    held=False,
    blocked_by=None,
    urgency=URGENCY_DEFAULT,
    allocation=None,
    requeue=True,
    requeues=0,
    cancelled_by=None,
)


def job(**fields):
    return msgspec.structs.replace(PENDING, **fields)


def refused(decide, *arguments):
    with pytest.raises(Refused) as caught:
        decide(*arguments)
    return caught.value.code, caught.value.status


def test_only_the_owner_or_an_administrator_may_change_a_job_that_exists():
    assert permitted(7, PENDING, ALICE, "job.hold") is PENDING
    assert permitted(7, PENDING, ROOT, "job.hold") is PENDING
    assert refused(permitted, 7, PENDING, Submitter("bob", privileged=False), "job.hold") == ("not_owner", 403)
    assert refused(permitted, 7, None, ROOT, "job.hold") == ("unknown_job", 404)


def test_cancelling_a_pending_job_ends_it_at_once():
    change = cancel(7, PENDING, ROOT, 100.0)
    assert isinstance(change, Change)
    assert (change.job, change.event, change.actor, change.cause) == (7, Event.CANCEL, "root", "cancel")
    assert change.columns == {"ended_at": 100.0, "eligible_at": None}


@pytest.mark.parametrize("state", sorted(ACTIVE_STATES))
def test_cancelling_a_job_with_nodes_asks_them_to_end_it(state):
    assert cancel(7, job(state=state), ALICE, 100.0) == EndRequest(job=7, actor="alice")


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_a_job_that_has_ended_is_not_cancelled(state):
    assert refused(cancel, 7, job(state=state), ALICE, 100.0) == ("already_ended", 409)


@pytest.mark.parametrize("decide", [hold, release])
@pytest.mark.parametrize("state", sorted(set(State) - {State.PENDING}))
def test_only_pending_jobs_are_held_or_released(decide, state):
    assert refused(decide, 7, job(state=state, held=True), ALICE, 100.0) == ("not_pending", 409)


@pytest.mark.parametrize("held", [False, True])
def test_a_held_job_is_not_eligible(held):
    change = hold(7, job(held=held), ALICE, 100.0)
    assert (change.event, change.columns) == (Event.HOLD, {"held": True, "held_by": "alice", "eligible_at": None})


@pytest.mark.parametrize(
    ("decide", "state", "message"),
    [
        (cancel, {"state": State.COMPLETED}, "job 2_8 is completed; there is nothing to cancel"),
        (hold, {"state": State.RUNNING}, "job 2_8 is running; only pending jobs can be held"),
        (release, {}, "job 2_8 is not held"),
        (
            release,
            {"held": True, "held_by": "root"},
            "job 2_8 is held by the administrator 'root'; ask for its release, or cancel it",
        ),
    ],
)
def test_messages_name_a_task_as_people_do(decide, state, message):
    with pytest.raises(Refused) as caught:
        decide(12, job(array_job=2, array_task=8, **state), ALICE, 100.0)
    assert caught.value.message == message


def test_another_users_task_is_named_as_people_do():
    with pytest.raises(Refused, match="job 2_8 belongs to 'alice'"):
        permitted(12, job(array_job=2, array_task=8), Submitter("bob", privileged=False), "job.hold")


def test_a_job_that_is_not_held_is_not_released():
    assert refused(release, 7, PENDING, ALICE, 100.0) == ("not_held", 409)


@pytest.mark.parametrize(
    ("fields", "urgency", "eligible_at"),
    [
        ({"held": True}, URGENCY_DEFAULT, 100.0),
        ({"held": True, "urgency": 3}, 3, 100.0),
        ({"held": True, "urgency": 0}, URGENCY_DEFAULT, 100.0),
        ({"urgency": 0}, URGENCY_DEFAULT, 100.0),
        ({"held": True, "blocked_by": "dependency"}, URGENCY_DEFAULT, None),
    ],
)
def test_a_released_job_is_eligible_from_then_on_unless_it_waits_for_something_else(fields, urgency, eligible_at):
    change = release(7, job(**fields), ALICE, 100.0)
    assert change.columns == {"held": False, "held_by": None, "urgency": urgency, "eligible_at": eligible_at}


def test_its_owner_does_not_release_what_an_administrator_holds_and_does_not_take_the_hold_over():
    kept = job(held=True, held_by="root")
    assert refused(release, 7, kept, ALICE, 100.0) == ("admin_hold", 403)
    assert hold(7, kept, ALICE, 100.0).columns["held_by"] == "root"
    assert release(7, kept, ROOT, 100.0).columns["held"] is False
    assert hold(7, job(held=True, held_by="alice"), ROOT, 100.0).columns["held_by"] == "root"


@pytest.mark.parametrize("held_by", [None, "alice"])
def test_its_owner_releases_an_own_hold_and_one_of_unknown_origin(held_by):
    assert release(7, job(held=True, held_by=held_by), ALICE, 100.0).columns["held_by"] is None


def test_each_decision_has_its_verb():
    assert {ACTIONS[decide] for decide in (cancel, hold, release)} == {"job.cancel", "job.hold", "job.release"}


RUNNING = msgspec.structs.replace(PENDING, state=State.RUNNING, allocation=3)


def test_a_running_job_gets_a_signal_and_runs_on():
    change = signalled(10, ())(7, RUNNING, ALICE, 5.0)
    assert isinstance(change, Change)
    assert (change.event, change.actor, change.detail, change.columns) == (
        Event.SIGNAL,
        "alice",
        {"signal": "USR1"},
        {},
    )


@pytest.mark.parametrize("state", sorted(set(State) - {State.RUNNING}))
def test_only_running_jobs_get_signals(state):
    assert refused(signalled(10, ()), 7, job(state=state, allocation=3), ROOT, 5.0) == ("not_running", 409)


def test_an_array_that_has_no_pending_task_left_gets_none_itself():
    assert refused(signalled(10, ()), 7, job(state=State.RUNNING), ROOT, 5.0) == ("not_running", 409)


def test_signals_that_no_node_fetches_are_bounded():
    assert refused(signalled(10, {7}), 7, RUNNING, ROOT, 5.0) == ("too_many_signals", 429)
