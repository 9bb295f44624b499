"""What a submission becomes, and every reason for which it is refused, with code and field."""

import math

import pytest
from builder import GIB, admission_tables

from rankd.core.admission.admit import QueueEntry, admit, check_when
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency, JobRequest
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.setting import AdmissionSettings, Qos, SchedulingSettings, Settings

ALICE = Submitter("alice", privileged=False)
ROOT = Submitter("root", privileged=True)
CLASSES = ClassTable.of(
    [
        PriorityClass(name="batch", value=10, global_default=True),
        PriorityClass(name="urgent", value=4000, preemption_policy="Never"),
    ]
)


def entry(path, partition="default", *, is_leaf=True, **maximum):
    return (partition, path.lower()), QueueEntry(partition=partition, path=path, is_leaf=is_leaf, maximum=maximum)


QUEUES = dict(
    [
        entry("root", is_leaf=False),
        entry("root.default"),
        entry("root.Teams", is_leaf=False),
        entry("root.Teams.Red", vcore=8000, gpu=0),
        entry("root.only-gpu", "gpu"),
        entry("root.default", "gpu"),
    ]
)
TABLES = admission_tables(queues=QUEUES, partitions=("default", "gpu"), classes=CLASSES)


def admitted(submitter=ALICE, tables=TABLES, **fields):
    return admit(JobRequest(**{"command": ["true"], **fields}), submitter, tables)


def settings(rule, **fields):
    return Settings(admission=AdmissionSettings(unknown_association=rule, default_account="open"), **fields)


# --- accepted -------------------------------------------------------------------------------------------------


def test_a_command_alone_is_enough():
    job = admitted()
    assert (job.user, job.account, job.queue, job.partition, job.qos) == (
        "alice", "physics", "root.default", "default", "normal",
    )  # fmt: skip
    assert (job.class_value, job.priority_class, job.preemption_policy) == (10, "batch", "PreemptLowerPriority")
    assert (job.urgency, job.held, job.nodes, job.min_nodes, job.resources) == (16, False, 1, 1, {"vcore": 1000})


def test_the_request_is_kept_as_it_was():
    request = JobRequest(command=["a", "b"], env={"X": "1"}, comment="c")
    assert admit(request, ALICE, TABLES).request == request


def test_amounts_are_parsed_and_zeros_left_out():
    job = admitted(resources={"vcore": "500m", "memory": "8Gi", "gpu": 0})
    assert job.resources == {"vcore": 500, "memory": 8 * GIB}


@pytest.mark.parametrize(("nodes", "min_nodes", "least"), [(3, None, 3), (3, 1, 1), (3, 3, 3)])
def test_min_nodes_is_all_of_them_unless_said_otherwise(nodes, min_nodes, least):
    assert admitted(nodes=nodes, min_nodes=min_nodes).min_nodes == least


@pytest.mark.parametrize(("fields", "held"), [({}, False), ({"held": True}, True), ({"urgency": 0}, True)])
def test_a_hold_and_urgency_0_both_hold(fields, held):
    assert admitted(**fields).held is held


@pytest.mark.parametrize("wanted", ["root.teams.red", "ROOT.Teams.RED", "Teams.Red", "teams.red"])
def test_queues_are_found_in_any_case_and_without_root_and_shown_as_written(wanted):
    assert admitted(queue=wanted).queue == "root.Teams.Red"


@pytest.mark.parametrize(
    ("fields", "partition"),
    [
        ({}, "default"),
        ({"queue": "only-gpu"}, "gpu"),  # the first partition that has it
        ({"partition": "gpu"}, "gpu"),
        ({"partition": "gpu", "queue": "root.default"}, "gpu"),
        ({"queue": ""}, "default"),
    ],
)
def test_a_job_goes_to_its_partition_or_to_the_first_that_has_its_queue(fields, partition):
    assert admitted(**fields).partition == partition


@pytest.mark.parametrize(
    ("fields", "value", "name"),
    [
        ({}, 10, "batch"),
        ({"priority_class": ""}, 10, "batch"),
        ({"priority_class": "urgent"}, 4000, "urgent"),
        ({"priority_class": "urgent", "priority": 4000, "preemption_policy": "Never"}, 4000, "urgent"),
        ({"priority": 10}, 10, "batch"),
    ],
)
def test_the_class_is_resolved_to_its_number(fields, value, name):
    job = admitted(**fields)
    assert (job.class_value, job.priority_class) == (value, name)


def test_without_any_class_there_is_no_name_and_0():
    job = admitted(tables=admission_tables())
    assert (job.class_value, job.priority_class, job.preemption_policy) == (0, None, "PreemptLowerPriority")


def test_an_administrator_may_submit_for_another_user_and_with_any_urgency_and_class():
    job = admitted(ROOT, user="alice", urgency=31, priority_class="system-node-critical")
    assert (job.user, job.account, job.urgency, job.class_value) == ("alice", "physics", 31, 2_000_001_000)


def test_naming_oneself_is_no_mismatch():
    assert admitted(user="alice").user == "alice"


@pytest.mark.parametrize("rule", ["default", "zero"])
def test_who_is_in_no_account_goes_to_the_default_one_where_that_is_open(rule):
    tables = admission_tables(settings=settings(rule), accounts=frozenset({"open", "physics"}))
    assert admit(JobRequest(command=["true"]), Submitter("newcomer", privileged=False), tables).account == "open"
    assert admit(JobRequest(command=["true"], account="open"), ALICE, tables).account == "open"


def test_the_configured_default_qos_and_time_limit_hold():
    given = Settings(
        qos=[Qos(name="low"), Qos(name="high")],
        default_qos="low",
        scheduling=SchedulingSettings(default_time_limit_s=600.0),
    )
    tables = admission_tables(settings=given)
    assert admitted(tables=tables).qos == "low"
    assert admitted(tables=tables).request.time_limit_s == 600.0
    assert admitted(tables=tables, qos="high", time_limit_s=5).request.time_limit_s == 5


def test_a_job_admitted_again_keeps_its_class():
    from rankd.core.admission.priority_class import Resolved

    kept = Resolved(class_value=77, name="gone", preemption_policy="Never")
    job = admit(JobRequest(command=["true"], priority_class="gone"), ALICE, TABLES, kept)
    assert (job.class_value, job.priority_class, job.preemption_policy) == (77, "gone", "Never")


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 1_000_000}, {"time_limit_s": 1e-3}, {"begin_at": 0.0}, {"name": "n" * 256}, {"urgency": 1},
        {"depends_on": [Dependency(type="after", job=1)]}, {"constraints": "a=b,!c"}, {"resources": {"memory": 1}},
        {"env": {"A": ""}}, {"comment": "x" * 4096}, {"queue": "Teams.Red", "resources": {"vcore": 8}},
        {"queue": "Teams.Red", "resources": {"vcore": 4}, "nodes": 3, "min_nodes": 2},
        {"queue": "Teams.Red", "resources": {"memory": "1Ti"}},
    ],
)  # fmt: skip
def test_what_is_just_within_the_bounds_is_accepted(fields):
    assert admitted(**fields)


# --- refused --------------------------------------------------------------------------------------------------

TEXT = "a\0b"


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"command": []}, "empty_command", "command"),
        ({"command": [""]}, "empty_command", "command"),
        ({"command": ["a", TEXT]}, "bad_text", "command"),
        ({"env": {"A": TEXT}}, "bad_text", "env"),
        ({"env": {TEXT: "a"}}, "bad_text", "env"),
        ({"env": {"A=B": "c"}}, "bad_text", "env"),
        ({"env": {"": "c"}}, "bad_text", "env"),
        *(({name: TEXT}, "bad_text", name) for name in ("cwd", "stdin", "stdout", "stderr", "name", "key")),
        *(({name: "n" * 257}, "too_long", name) for name in ("name", "key", "application")),
        ({"array": "9-1"}, "bad_array", "array"),
        ({"nodes": 0}, "bad_nodes", "nodes"),
        ({"nodes": -1}, "bad_nodes", "nodes"),
        ({"nodes": 1_000_001}, "bad_nodes", "nodes"),
        ({"min_nodes": 0}, "bad_min_nodes", "min_nodes"),
        ({"nodes": 2, "min_nodes": 3}, "bad_min_nodes", "min_nodes"),
        ({"urgency": -1}, "bad_urgency", "urgency"),
        ({"urgency": 32}, "bad_urgency", "urgency"),
        ({"urgency": 17}, "urgency_not_allowed", "urgency"),
        ({"urgency": 31}, "urgency_not_allowed", "urgency"),
        ({"time_limit_s": 0.0}, "bad_time_limit", "time_limit_s"),
        ({"time_limit_s": -5.0}, "bad_time_limit", "time_limit_s"),
        ({"time_limit_s": math.nan}, "bad_time_limit", "time_limit_s"),
        ({"time_limit_s": math.inf}, "bad_time_limit", "time_limit_s"),
        ({"begin_at": math.nan}, "bad_begin_at", "begin_at"),
        ({"begin_at": math.inf}, "bad_begin_at", "begin_at"),
        ({"begin_at": -1.0}, "bad_begin_at", "begin_at"),
        ({"begin_at": 1e12}, "bad_begin_at", "begin_at"),
        ({"time_limit_s": 1e10}, "bad_time_limit", "time_limit_s"),
        ({"depends_on": [Dependency(type="after", job=0)]}, "bad_dependency", "depends_on"),
        ({"depends_on": [Dependency(type="after", job="first")]}, "bad_dependency", "depends_on"),
        ({"depends_on": [Dependency(type="after", job="17_[3-4]")]}, "bad_dependency", "depends_on"),
        ({"depends_on": [Dependency(type="after")]}, "bad_dependency", "depends_on"),
        ({"depends_on": [Dependency(type="singleton", job=1)]}, "bad_dependency", "depends_on"),
        ({"user": "bob"}, "user_mismatch", "user"),
        ({"account": "chemistry"}, "unknown_account", "account"),
        ({"account": "root"}, "unknown_association", "account"),
        ({"resources": {"memory": "-1"}}, "bad_quantity", "resources.memory"),
        ({"resources": {"vcore": math.nan}}, "bad_quantity", "resources.vcore"),
        ({"resources": {"gpu": 0.5}}, "bad_resources", "resources.gpu"),
        ({"resources": {"vcore": 2**63}}, "bad_quantity", "resources.vcore"),
        ({"resources": {}}, "zero_cores", "resources.vcore"),
        ({"resources": {"vcore": 0, "memory": 1}}, "zero_cores", "resources.vcore"),
        ({"resources": {}, "exclusive": True}, "zero_cores", "resources.vcore"),
        ({"partition": "tpu"}, "unknown_partition", "partition"),
        ({"queue": "root.nowhere"}, "unknown_queue", "queue"),
        ({"partition": "default", "queue": "only-gpu"}, "unknown_queue", "queue"),
        ({"queue": "root"}, "parent_queue", "queue"),
        ({"queue": "teams"}, "parent_queue", "queue"),
        ({"queue": "Teams.Red", "resources": {"vcore": 9}}, "queue_quota", "resources"),
        ({"queue": "Teams.Red", "resources": {"vcore": 3}, "nodes": 3}, "queue_quota", "resources"),
        ({"queue": "Teams.Red", "resources": {"gpu": 1}}, "queue_quota", "resources"),
        ({"constraints": "gpu >"}, "bad_constraints", "constraints"),
        ({"priority_class": "nothing"}, "unknown_priority_class", "priority_class"),
        ({"priority_class": "system-node-critical"}, "system_priority_class", "priority_class"),
        ({"priority_class": "urgent", "priority": 1}, "priority_mismatch", "priority"),
        ({"preemption_policy": "Never"}, "preemption_policy_mismatch", "preemption_policy"),
        ({"qos": "platinum"}, "unknown_qos", "qos"),
    ],
)
def test_a_refusal_has_a_code_and_names_its_field(fields, code, field):
    with pytest.raises(Refused) as caught:
        admitted(**fields)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert 400 <= caught.value.status < 500
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "fields",
    [{"urgency": 17}, {"user": "bob"}, {"account": "root"}, {"priority_class": "system-cluster-critical"}],
)
def test_what_only_others_may_is_refused_as_not_allowed(fields):
    with pytest.raises(Refused) as caught:
        admitted(**fields)
    assert caught.value.status == 403


def test_who_is_in_no_account_is_refused_where_accounts_are_closed():
    with pytest.raises(Refused) as caught:
        admitted(Submitter("stranger", privileged=False), admission_tables(settings=settings("refuse")))
    assert (caught.value.code, caught.value.field, caught.value.status) == ("unknown_association", "user", 403)


def test_an_open_account_opens_no_other():
    tables = admission_tables(settings=settings("default"), accounts=frozenset({"open", "physics"}))
    with pytest.raises(Refused) as caught:
        admit(JobRequest(command=["true"], account="physics"), Submitter("stranger", privileged=False), tables)
    assert (caught.value.code, caught.value.field) == ("unknown_association", "account")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 257, "\x7f"])
def test_a_user_needs_a_name_that_can_be_shown(name):
    with pytest.raises(Refused) as caught:
        admitted(Submitter(name, privileged=False))
    assert (caught.value.code, caught.value.field) == ("bad_user", "user")


def test_messages_of_unknown_names_list_the_known_ones():
    for fields, known in (
        ({"queue": "x"}, "root.Teams.Red"),
        ({"qos": "x"}, "normal"),
        ({"partition": "x"}, "default, gpu"),
        ({"account": "x"}, "physics"),
        ({"priority_class": "x"}, "batch"),
    ):
        with pytest.raises(Refused) as caught:
            admitted(**fields)
        assert known in caught.value.message


def test_an_unknown_partition_is_answered_with_the_queue_of_that_name():
    with pytest.raises(Refused, match=r"unknown partition 'only-gpu'.*write queue 'root\.only-gpu' \(-q\)$"):
        admitted(partition="only-gpu")


def test_a_time_limit_that_is_too_long_is_told_in_slurms_form():
    with pytest.raises(Refused, match=r"is 115740-17:46:40 \(1e\+10 s\); give at most 36600-00:00:00 \(316224"):
        admitted(time_limit_s=1e10)
    with pytest.raises(Refused, match="give at most 36600-00:00:00"):
        check_when(JobRequest(command=["true"], time_limit_s=math.inf))
