"""Updates of pending jobs, decided without a database."""

from __future__ import annotations

import msgspec
import pytest
from builder import NOW, admission_tables

from rankd.core.admission.dependency import Progress
from rankd.core.admission.priority_class import Resolved
from rankd.core.admission.readmission import AdmittedJob
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_update import (
    AwaitedJobs,
    StoredJob,
    Task,
    check_update,
    decide_update,
)
from rankd.core.errors import Refused
from rankd.core.model.job import CHANGEABLE_FIELDS, Dependency, JobRequest, State
from rankd.core.model.priority_class import PREEMPT_LOWER_PRIORITY
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import JobSelection

ALICE, BOB, ROOT = Submitter("alice", False), Submitter("bob", False), Submitter("root", True)
TABLES = admission_tables()
NOBODY = AwaitedJobs({}, set())
PENDING = StoredJob(
    revision=3,
    state=State.PENDING,
    held=False,
    blocked_by=None,
    eligible_at=NOW - 50,
    fixed_priority=None,
    admitted=AdmittedJob(
        user="alice",
        resolved=Resolved(class_value=0, name=None, preemption_policy=PREEMPT_LOWER_PRIORITY),
        request=JobRequest(
            command=["true"], queue="root.default", partition="default", qos="normal", account="physics", name="old"
        ),
    ),
)


def decided(stored=PENDING, asker=ALICE, awaited=NOBODY, **fields):
    update = JobUpdate(id=7, **fields)
    return decide_update(7, stored, update.given(), Task(update, asker, TABLES, NOW), awaited)


def refused(*arguments, **fields):
    with pytest.raises(Refused) as caught:
        decided(*arguments, **fields)
    return caught.value.code


def test_the_fields_of_an_update_are_those_of_the_message():
    others = {*JobSelection.__struct_fields__, "fixed_priority", "array_limit", "add_time_limit_s"}
    assert tuple(name for name in JobUpdate.__struct_fields__ if name not in others) == CHANGEABLE_FIELDS
    assert set(CHANGEABLE_FIELDS) <= set(JobRequest.__struct_fields__)


def test_the_event_has_each_changed_field_before_and_after():
    verdict = decided(name="new", comment="why", urgency=16)
    assert verdict.changes == {"name": ("old", "new"), "comment": (None, "why")}
    assert verdict.event_detail() == {
        "name": {"before": "old", "after": "new"},
        "comment": {"before": None, "after": "why"},
    }
    assert msgspec.json.decode(verdict.request, type=JobRequest).name == "new"


def test_a_job_that_has_the_values_already_has_no_changes():
    verdict = decided(name="old", urgency=16, queue="DEFAULT")
    assert (verdict.changes, verdict.eligibility) == ({}, {})


@pytest.mark.parametrize(
    ("stored", "asker", "code"),
    [
        (None, ROOT, "unknown_job"),
        (PENDING, BOB, "not_owner"),
        *[(PENDING._replace(state=state), ALICE, "not_pending") for state in sorted(set(State) - {State.PENDING})],
    ],
)
def test_only_a_pending_job_of_ones_own_is_changed(stored, asker, code):
    assert refused(stored, asker, name="new") == code


def test_a_job_larger_than_its_nodes_could_be_sent_is_refused():
    env = {"A": "x" * 2**18}
    request = msgspec.structs.replace(PENDING.admitted.request, env=env)
    stored = PENDING._replace(admitted=msgspec.structs.replace(PENDING.admitted, request=request))
    assert refused(stored, name="new") == "too_large"


@pytest.mark.parametrize(
    ("before", "urgency", "eligibility"),
    [
        ({}, 5, {}),
        ({}, 0, {"held": True, "eligible_at": None, "held_by": "alice"}),
        ({"blocked_by": "begin time", "eligible_at": None}, 0, {"held": True, "held_by": "alice"}),
    ],
)
def test_urgency_0_holds_and_another_urgency_leaves_an_eligible_jobs_age_alone(before, urgency, eligibility):
    assert decided(PENDING._replace(**before), urgency=urgency).eligibility == eligibility


def held_at_urgency_0(by):
    request = msgspec.structs.replace(PENDING.admitted.request, urgency=0)
    admitted = msgspec.structs.replace(PENDING.admitted, request=request)
    return PENDING._replace(held=True, held_by=by, eligible_at=None, admitted=admitted)


def test_an_urgency_does_not_end_an_administrators_hold_but_for_administrators():
    assert refused(held_at_urgency_0("root"), urgency=5) == "admin_hold"
    assert decided(held_at_urgency_0("root"), ROOT, urgency=5).eligibility["held"] is False
    released = {"held": False, "held_by": None, "eligible_at": NOW}
    assert decided(held_at_urgency_0("alice"), urgency=5).eligibility == released
    assert decided(held_at_urgency_0("root"), name="new").eligibility == {}


def test_urgency_0_does_not_make_an_administrators_hold_the_owners():
    kept = PENDING._replace(held=True, held_by="root", eligible_at=None)
    assert decided(kept, urgency=0).eligibility == {}
    assert decided(PENDING, ROOT, urgency=0).eligibility["held_by"] == "root"


def test_new_conditions_block_and_taking_them_off_makes_eligible():
    later = decided(begin_at=NOW + 10)
    assert later.eligibility == {"blocked_by": "begin time", "eligible_at": None}
    assert decided(begin_at=NOW - 10).eligibility == {}
    wait = [Dependency(type="afterok", job=3)]
    running, completed = (AwaitedJobs({3: Progress(state, True)}) for state in (State.RUNNING, State.COMPLETED))
    assert decided(awaited=running, depends_on=wait).eligibility == {"blocked_by": "dependency", "eligible_at": None}
    assert decided(awaited=completed, depends_on=wait).eligibility == {}
    request = msgspec.structs.replace(PENDING.admitted.request, begin_at=NOW + 10)
    admitted = msgspec.structs.replace(PENDING.admitted, request=request)
    blocked = PENDING._replace(blocked_by="begin time", eligible_at=None, admitted=admitted)
    assert decided(blocked, begin_at=None).eligibility == {"blocked_by": None, "eligible_at": NOW}


def test_a_job_waits_for_jobs_that_exist_and_never_for_itself():
    wait = [Dependency(type="afterok", job=3)]
    assert refused(depends_on=wait) == "unknown_dependency"
    pending = Progress(State.PENDING, False)
    for job in (7, 8):  # the job is 7: it would wait for itself, or for a later job, which may wait for it
        later = [Dependency(type="afterok", job=job)]
        assert refused(awaited=AwaitedJobs({job: pending}), depends_on=later) == "bad_dependency"


@pytest.mark.parametrize(
    ("fields", "asker", "code"),
    [
        ({}, ROOT, "nothing_to_update"),
        ({"priority": 5}, ROOT, "class_not_named"),
        ({"fixed_priority": 5}, ALICE, "admins_only"),
        ({"fixed_priority": 2**31}, ROOT, "bad_fixed_priority"),
    ],
)
def test_an_update_that_suits_no_job_is_refused_as_a_whole(fields, asker, code):
    with pytest.raises(Refused) as caught:
        check_update(JobUpdate(id=7, **fields), asker)
    assert caught.value.code == code


def test_a_fixed_priority_is_a_change_of_its_own():
    check_update(JobUpdate(id=7, fixed_priority=None), ROOT)
    assert decided(asker=ROOT, fixed_priority=5).changes == {"fixed_priority": (None, 5)}
    assert decided(PENDING._replace(fixed_priority=5), ROOT, fixed_priority=None).changes == {
        "fixed_priority": (5, None)
    }
