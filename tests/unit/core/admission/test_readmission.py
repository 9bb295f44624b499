"""A pending job admitted again with other fields: what is given is asked anew, what is not stays."""

import msgspec
import pytest
from builder import GIB, admission_tables

from rankd.core.admission.acl import parse_acl
from rankd.core.admission.admit import QueueEntry
from rankd.core.admission.priority_class import ClassTable, Resolved
from rankd.core.admission.readmission import AdmittedJob, readmit
from rankd.core.admission.rights import Rights
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList, AccessLists
from rankd.core.model.job import Dependency, JobRequest
from rankd.core.model.node import Node, NodeState
from rankd.core.model.priority_class import NEVER, PREEMPT_LOWER_PRIORITY, PriorityClass
from rankd.core.model.setting import Qos, SchedulingSettings, Settings

ALICE = Submitter("alice", privileged=False)
ROOT = Submitter("root", privileged=True)
CLASSES = ClassTable.of(
    [
        PriorityClass(name="batch", value=10, global_default=True),
        PriorityClass(name="urgent", value=4000, preemption_policy=NEVER),
    ]
)
GONE = Resolved(class_value=7, name="deleted", preemption_policy=PREEMPT_LOWER_PRIORITY)


def entry(path, **fields):
    return ("default", path), QueueEntry(partition="default", path=path, is_leaf=path != "root", **fields)


TABLES = admission_tables(
    queues=dict(
        [
            entry("root"),
            entry("root.default"),
            entry("root.small", maximum={"vcore": 2000}),
            entry("root.staff", access=parse_acl("bob")),
        ]
    ),
    classes=CLASSES,
)


def again(asker=ALICE, tables=TABLES, resolved=GONE, before=None, **given):
    usual = {"command": ["true"], "queue": "root.default", "partition": "default", "account": "physics"}
    admitted = AdmittedJob(user="alice", resolved=resolved, request=JobRequest(**usual | (before or {})))
    return readmit(admitted, given, asker, tables)


def code(**arguments):
    with pytest.raises(Refused) as refused:
        again(**arguments)
    return refused.value.code


def test_only_a_change_of_the_time_limit_gives_a_job_the_usual_one():
    settings = msgspec.structs.replace(Settings(), scheduling=SchedulingSettings(default_time_limit_s=60.0))
    tables = msgspec.structs.replace(TABLES, settings=settings)
    assert again(tables=tables, urgency=3)[0].request.time_limit_s is None
    assert again(tables=tables, time_limit_s=None)[0].request.time_limit_s == 60.0
    assert again(tables=tables, before={"time_limit_s": 9.0}, urgency=3)[0].request.time_limit_s == 9.0


# --- the class --------------------------------------------------------------------------------------------------


def test_a_class_that_is_not_named_stays_even_if_it_exists_no_more():
    accepted, resolved = again(urgency=3)
    assert resolved == GONE
    assert (accepted.class_value, accepted.priority_class) == (7, "deleted")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"priority_class": "urgent"}, (4000, "urgent", NEVER)),
        ({"priority_class": "urgent", "priority": 4000, "preemption_policy": NEVER}, (4000, "urgent", NEVER)),
        ({"priority_class": None}, (10, "batch", PREEMPT_LOWER_PRIORITY)),
        ({"priority_class": ""}, (10, "batch", PREEMPT_LOWER_PRIORITY)),
    ],
)
def test_a_class_that_is_named_is_resolved_as_at_a_submission(given, expected):
    accepted, _ = again(**given)
    assert (accepted.class_value, accepted.priority_class, accepted.preemption_policy) == expected


def test_the_number_of_the_old_class_does_not_stand_in_the_way_of_another():
    accepted, _ = again(before={"priority_class": "deleted", "priority": 7}, priority_class="urgent")
    assert (accepted.request.priority_class, accepted.request.priority) == ("urgent", None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"priority_class": "none"}, "unknown_priority_class"),
        ({"priority_class": "urgent", "priority": 4001}, "priority_mismatch"),
        ({"priority_class": "urgent", "preemption_policy": PREEMPT_LOWER_PRIORITY}, "preemption_policy_mismatch"),
        ({"priority_class": "system-node-critical"}, "system_priority_class"),
    ],
)
def test_a_class_that_could_not_be_submitted_is_refused(given, expected):
    assert code(**given) == expected


def test_an_administrator_gives_a_users_job_a_system_class_which_it_keeps():
    _, resolved = again(ROOT, priority_class="system-cluster-critical")
    assert resolved.class_value == 2_000_000_000
    assert again(resolved=resolved, comment="mine")[1] == resolved


# --- other fields -----------------------------------------------------------------------------------------------


def test_resources_that_are_not_named_stay_and_null_takes_one_off():
    before = {"resources": {"vcore": 2, "gpu": 1}}
    accepted, _ = again(before=before, resources={"memory": "2Gi", "gpu": None})
    assert accepted.resources == {"vcore": 2000, "memory": 2 * GIB}
    assert accepted.request.resources == {"vcore": 2, "memory": "2Gi"}


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ({"gpu:a100": 2}, {"gpu": None}, {}),
        ({"gpu:a100": 2, "gpu:h100": 1}, {"gpu:v100": 1}, {"gpu:v100": 1}),
        ({"gpu:a100": 2}, {"gpu": 1}, {"gpu": 1}),
        ({"gpu": 2}, {"gpu:v100": 1}, {"gpu:v100": 1}),
        ({"gpu:a100": 2, "gpu:h100": 1}, {"gpu:h100": None}, {"gpu:a100": 2}),
    ],
)
def test_devices_that_are_named_replace_those_of_before(before, given, after):
    accepted, _ = again(before={"resources": {"vcore": 1, "fpga": 1, **before}}, resources=given)
    assert accepted.request.resources == {"vcore": 1, "fpga": 1, **after}


def test_an_urgency_that_an_administrator_gave_is_kept_and_not_given_by_a_user():
    assert again(before={"urgency": 31}, comment="mine")[0].urgency == 31
    assert code(before={"urgency": 31}, urgency=31) == "urgency_not_allowed"
    assert again(ROOT, urgency=31)[0].urgency == 31


def test_a_closed_queue_is_kept_but_not_entered():
    closed = {"queue": "root.staff"}
    assert again(before=closed, comment="mine")[0].queue == "root.staff"
    assert code(queue="root.staff") == "queue_access"
    assert again(ROOT, queue="root.staff")[0].queue == "root.staff"


def test_what_the_rules_forbid_to_new_jobs_they_forbid_to_changed_ones():
    assert code(queue="root.small", resources={"vcore": 3}) == "queue_quota"
    assert code(account="biology") == "unknown_account"
    assert code(qos="none") == "unknown_qos"
    assert code(nodes=0) == "bad_nodes"
    assert code(constraints="==") == "bad_constraints"
    assert code(time_limit_s=float("nan")) == "bad_time_limit"


def test_only_what_changes_the_size_is_held_against_the_nodes():
    node = Node(name="n", partition="default", capacity={"vcore": 4000}, state=NodeState.UP, labels={})
    tables = admission_tables(queues=TABLES.queues, classes=CLASSES, nodes=(node,))
    large = {"resources": {"vcore": 8}}
    assert again(tables=tables, before=large, comment="mine")[0].resources == {"vcore": 8000}
    assert code(tables=tables, resources={"vcore": 5}) == "no_node_fits"
    assert again(tables=tables, resources={"vcore": 4})[0].resources == {"vcore": 4000}


# --- limits -------------------------------------------------------------------------------------------------------

OLD = {
    "comment": "x" * 10_000,
    "resources": {f"kind{number}": 1 for number in range(100)},
    "constraints": ",".join(f"k{number}" for number in range(100)),
    "depends_on": [Dependency(type="after", job=1)] * 2000,
    "time_limit_s": 1e12,
}


def test_a_job_of_before_the_limits_can_be_changed_in_other_fields():
    accepted, _ = again(before=OLD, name="new", urgency=3)
    assert accepted.resources == OLD["resources"], "no core is added to what was admitted"
    assert (accepted.request.comment, accepted.request.name) == (OLD["comment"], "new")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "n" * 257}, "too_long"),
        ({"comment": "x" * 4097}, "too_long"),
        ({"application": "a" * 257}, "too_long"),
        ({"queue": "q" * 1025}, "too_long"),
        ({"queue": "q" + ".q" * 32}, "too_many"),
        ({"account": "a" * 257}, "too_long"),
        ({"constraints": ",".join(f"k{number}" for number in range(65))}, "too_many"),
        ({"resources": {f"k{number}": 1 for number in range(33)}}, "too_many"),
        ({"resources": {"vcore": 0}}, "zero_cores"),
        ({"resources": {"memory": 2**50 + 1}}, "bad_quantity"),
        ({"depends_on": [Dependency(type="after", job=1)] * 1001}, "too_many"),
        ({"depends_on": [Dependency(type="after", job="x")]}, "bad_dependency"),
        ({"time_limit_s": 1e10}, "bad_time_limit"),
        ({"begin_at": 1e12}, "bad_begin_at"),
    ],
)
def test_what_is_given_is_held_against_the_limits_of_a_submission(given, expected):
    assert code(**given) == expected


def test_taking_the_cores_off_gives_one():
    accepted, _ = again(before={"resources": {"vcore": 4, "memory": 1}}, resources={"vcore": None})
    assert accepted.resources == {"vcore": 1000, "memory": 1}


def test_a_closed_qos_class_and_account_are_kept_but_not_entered():
    qos = [Qos(name="normal"), Qos(name="high", users=[])]
    lists = AccessLists(classes={"urgent": AccessList()}, accounts={"closed": AccessList()})
    tables = admission_tables(
        settings=Settings(qos=qos),
        classes=CLASSES,
        accounts=frozenset({"root", "physics", "closed"}),
        rights=Rights.of(qos, lists),
    )
    urgent = Resolved(class_value=4000, name="urgent", preemption_policy=NEVER)
    before = {"qos": "high", "account": "closed", "priority_class": "urgent"}
    kept, _ = again(tables=tables, resolved=urgent, before=before, comment="mine")
    assert (kept.qos, kept.account, kept.priority_class) == ("high", "closed", "urgent")
    for field, code_ in (("qos", "qos_access"), ("account", "account_access"), ("priority_class", "class_access")):
        assert code(tables=tables, resolved=urgent, before=before, **{field: before[field]}) == code_
        assert again(ROOT, tables=tables, resolved=urgent, before=before, **{field: before[field]})
