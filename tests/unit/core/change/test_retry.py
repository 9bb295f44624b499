"""What is submitted again, and what is refused."""

import msgspec
import pytest

from rankd.core.change.retry import OldJob, OldTasks, Wish, again
from rankd.core.errors import Refused
from rankd.core.model.array import ArraySpan, parse_name
from rankd.core.model.index_set import EMPTY, parse
from rankd.core.model.job import FINAL_STATES, Dependency, JobRequest, State

JOB = JobRequest(
    command=["train.sh", "7"], script="#!/bin/sh\n", env={"A": "1"}, user="alice", key="old", held=True,
    depends_on=[Dependency(type="afterok", job=3)], begin_at=5.0,
)  # fmt: skip
SPAN = ArraySpan(10, 0, 9, 1)


def single(state=State.FAILED, *, was_blocked=False, **request):
    return OldJob(17, "alice", state, JobRequest(**{"command": ["true"], **request}), was_blocked)


def array(state=State.FAILED, *, limit=None, still=EMPTY, unfinished=EMPTY, unmet=EMPTY):
    request = JobRequest(command=["true"], array="0-9")
    return OldJob(17, "alice", state, request, False, OldTasks(parse("0-9"), SPAN, limit, still, unfinished, unmet))


def wish(name="17", **given):
    return Wish(parse_name(name), **given)


def refusal(old, wanted):
    with pytest.raises(Refused) as caught:
        again(old, wanted)
    return caught.value.code, caught.value.status


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_a_job_that_ended_is_submitted_as_it_was_with_a_key_of_its_own(state):
    found = again(OldJob(17, "alice", state, JOB, False), wish(key="new"))
    assert found.retry_of == 17
    assert found.request == JobRequest(command=["train.sh", "7"], script="#!/bin/sh\n", env={"A": "1"}, key="new")


def test_conditions_that_were_not_met_stay():
    found = again(OldJob(17, "alice", State.CANCELLED, JOB, True), wish())
    assert (found.request.depends_on, found.request.begin_at) == (JOB.depends_on, 5.0)


def test_a_singleton_waits_for_earlier_jobs_of_its_name_again():
    alone = Dependency(type="singleton")
    request = msgspec.structs.replace(JOB, depends_on=[*JOB.depends_on, alone])
    assert again(OldJob(17, "alice", State.FAILED, request, False), wish()).request.depends_on == [alone]


def test_tasks_wait_again_by_index_if_a_counterpart_has_not_completed():
    by_index, alone = Dependency(type="aftercorr", job=3), Dependency(type="singleton")
    old = array(unmet=parse("1,4"))
    request = msgspec.structs.replace(old.request, depends_on=[by_index, Dependency(type="afterok", job=2), alone])
    old = old._replace(request=request)
    assert again(old, wish("17_1")).request.depends_on == [by_index, alone]
    assert again(old, wish("17_[2-4]")).request.depends_on == [by_index, alone]
    assert again(old, wish("17_[2-3]")).request.depends_on == [alone]


def test_a_held_job_that_waits_is_not_cancelled_before_it_can_be_changed():
    request = msgspec.structs.replace(JOB, cancel_if_unmet=True)
    blocked = OldJob(17, "alice", State.CANCELLED, request, True)
    assert again(blocked, wish(held=True)).request.cancel_if_unmet is False
    assert again(blocked, wish()).request.cancel_if_unmet is True
    assert again(blocked._replace(was_blocked=False), wish(held=True)).request.cancel_if_unmet is True


@pytest.mark.parametrize(("urgency", "then"), [(0, 16), (1, 1), (15, 15), (16, 16), (17, 16), (31, 16)])
def test_an_urgency_that_only_administrators_give_does_not_come_along_nor_does_a_hold(urgency, then):
    assert again(single(urgency=urgency), wish()).request.urgency == then


def test_the_new_job_is_held_if_that_is_wished():
    assert again(single(), wish(held=True)).request.held
    assert not again(single(held=True), wish()).request.held


@pytest.mark.parametrize("state", [state for state in State if state not in FINAL_STATES])
def test_a_job_or_array_that_has_not_ended_is_refused(state):
    assert refusal(single(state), wish()) == ("not_ended", 409)
    if state is not State.ALLOCATED:
        assert refusal(array(state), wish()) == ("not_ended", 409)


def test_only_what_did_not_complete():
    assert again(single(State.TIMEOUT), wish(failed=True)).retry_of == 17
    assert refusal(single(State.COMPLETED), wish(failed=True)) == ("nothing_to_retry", 409)
    assert again(array(unfinished=parse("2,4-6")), wish(failed=True)).request.array == "2,4-6"
    assert again(array(unfinished=parse("2,4-6")), wish("17_[0-4]", failed=True)).request.array == "2,4"
    assert refusal(array(), wish(failed=True)) == ("nothing_to_retry", 409)
    assert refusal(array(unfinished=parse("2")), wish("17_[3-5]", failed=True)) == ("nothing_to_retry", 409)


def test_tasks_of_an_array_are_told_of_the_whole_one_and_keep_its_limit():
    assert again(array(), wish()) == (JobRequest(command=["true"], array="0-9"), 17, SPAN)
    assert again(array(limit=2), wish("17_[3,5-7]")) == (JobRequest(command=["true"], array="3,5-7%2"), 17, SPAN)


def test_tasks_that_ended_are_submitted_again_while_others_run():
    running = array(State.RUNNING, still=parse("5-9"))
    assert again(running, wish("17_[0-4]")).request.array == "0-4"
    assert refusal(running, wish("17_[4-5]")) == ("not_ended", 409)


def test_tasks_that_do_not_exist_are_refused():
    assert refusal(array(), wish("17_10")) == ("unknown_job", 404)
    assert refusal(array(), wish("17_[8-12]")) == ("unknown_job", 404)
    assert refusal(single(), wish("17_0")) == ("unknown_job", 404)


def test_too_many_ranges_are_refused():
    many = tuple(range(i * 3, i * 3 + 1) for i in range(10_001))
    old = OldJob(17, "alice", State.FAILED, JOB, False, OldTasks(many, SPAN))
    assert refusal(old, wish()) == ("array_too_large", 413)


def test_a_long_name_is_cut_in_messages():
    many = tuple(range(i * 3, i * 3 + 1) for i in range(1_000))
    old = array(State.RUNNING)._replace(tasks=OldTasks(many, SPAN, None, many))
    with pytest.raises(Refused) as caught:
        again(old, Wish(parse_name("17")._replace(indices=many)))
    assert len(caught.value.message) < 300
