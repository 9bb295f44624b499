"""Whose time limit may become what, while the job runs."""

import msgspec
import pytest

from rankd.core.admission.admit import MAX_TIME_LIMIT_S
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.readmission import AdmittedJob
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_update import StoredJob, check_update, with_added_limit
from rankd.core.change.running_limit import decide_limit
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest, State
from rankd.wire.job_update import JobUpdate

ALICE, ROOT = Submitter("alice", privileged=False), Submitter("root", privileged=True)


def running(limit):
    request = JobRequest(command=["true"], time_limit_s=limit)
    resolved = Resolved(class_value=0, name=None, preemption_policy="Never")
    return StoredJob(
        revision=9,
        state=State.RUNNING,
        held=False,
        blocked_by=None,
        eligible_at=1.0,
        fixed_priority=None,
        admitted=AdmittedJob(user="alice", resolved=resolved, request=request),
    )


def decided(before, after, asker=ALICE):
    return decide_limit(7, running(before), {"time_limit_s": after}, asker)


@pytest.mark.parametrize(("before", "after"), [(60.0, 30.0), (None, 30.0), (60.0, 60.0), (None, None)])
def test_a_user_may_shorten(before, after):
    limit = decided(before, after)
    assert limit.changes == ({} if before == after else {"time_limit_s": (before, after)})
    assert msgspec.json.decode(limit.request, type=JobRequest).time_limit_s == after


@pytest.mark.parametrize(("before", "after"), [(60.0, 61.0), (60.0, None)])
def test_only_an_administrator_may_lengthen(before, after):
    with pytest.raises(Refused) as caught:
        decided(before, after)
    assert (caught.value.code, caught.value.field) == ("admins_only", "time_limit_s")
    assert decided(before, after, ROOT).after == after


@pytest.mark.parametrize("after", [0.0, -1.0, float("inf"), float("nan")])
def test_a_limit_is_a_time(after):
    with pytest.raises(Refused, match="give seconds above 0"):
        decided(60.0, after, ROOT)


@pytest.mark.parametrize("asker", [ALICE, ROOT])
@pytest.mark.parametrize("after", [1e300, MAX_TIME_LIMIT_S + 1.0])
def test_a_limit_that_no_job_may_have_when_it_is_submitted_is_refused(asker, after):
    """A job without a limit got one of 1e300 s: its end was no date, and lists of jobs could not be shown."""
    with pytest.raises(Refused, match="give at most"):
        decided(None, after, asker)


def test_no_limit_means_the_configured_one():
    given = {"time_limit_s": None}
    assert decide_limit(7, running(3_600.0), given, ALICE, 60.0).after == 60.0
    with pytest.raises(Refused) as caught:
        decide_limit(7, running(30.0), given, ALICE, 60.0)
    assert caught.value.code == "admins_only"
    assert decide_limit(7, running(30.0), given, ROOT, None).after is None


@pytest.mark.parametrize("given", [{"name": "x"}, {"time_limit_s": 5.0, "fixed_priority": 3}, {}])
def test_nothing_else_of_a_running_job_is_changed(given):
    with pytest.raises(Refused, match="job 7 is running; only its time limit can be changed") as caught:
        decide_limit(7, running(60.0), given, ROOT)
    assert (caught.value.code, caught.value.status) == ("not_pending", 409)


@pytest.mark.parametrize(("added", "after"), [(3600.0, 3660.0), (-30.0, 30.0)])
def test_a_limit_grows_and_shrinks_by_a_difference(added, after):
    update = JobUpdate(id=7, add_time_limit_s=added)
    check_update(update, ALICE)
    assert with_added_limit("7", running(60.0), {}, update) == {"time_limit_s": after}


@pytest.mark.parametrize(("before", "added"), [(None, 5.0), (60.0, -60.0), (60.0, -9e99)])
def test_a_difference_leaves_a_limit(before, added):
    with pytest.raises(Refused) as caught:
        with_added_limit("7", running(before), {}, JobUpdate(id=7, add_time_limit_s=added))
    assert caught.value.code == "bad_time_limit"


@pytest.mark.parametrize("more", [{"time_limit_s": 5.0}, {"add_time_limit_s": float("inf")}])
def test_a_difference_is_finite_and_comes_alone(more):
    with pytest.raises(Refused) as caught:
        check_update(JobUpdate(**{"id": 7, "add_time_limit_s": 1.0, **more}), ROOT)
    assert caught.value.code == "bad_time_limit"
