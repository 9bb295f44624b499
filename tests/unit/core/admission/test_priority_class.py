import msgspec
import pytest

from rankd.core.admission.class_check import check, read_class
from rankd.core.admission.priority_class import BUILT_IN, ClassTable, resolve
from rankd.core.errors import Refused
from rankd.core.model.priority_class import PriorityClass

LOW = PriorityClass(name="low", value=-5)
HIGH = PriorityClass(name="high", value=1000, description="soon", preemption_policy="Never")
USUAL = PriorityClass(name="usual", value=10, global_default=True)
TABLE = ClassTable.of([LOW, HIGH, USUAL])


def refusal(action, *arguments, **keywords):
    with pytest.raises(Refused) as caught:
        action(*arguments, **keywords)
    return caught.value


def changed(given, **fields):
    return msgspec.structs.replace(given, **fields)


def test_built_ins_are_always_listed_with_the_running_systems_values():
    listed = {given.name: given for given in ClassTable.of().listed()}
    assert {name: given.value for name, given in listed.items()} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    assert {given.preemption_policy for given in listed.values()} == {"PreemptLowerPriority"}


def test_a_built_in_that_was_imported_with_another_value_gets_its_own_back():
    imported = PriorityClass(name="system-node-critical", value=7, description="ours", preemption_policy="Never")
    restored = ClassTable.of([imported]).named("system-node-critical", "name")
    assert (restored.value, restored.preemption_policy) == (2_000_001_000, "PreemptLowerPriority")
    assert restored.description == "ours"


@pytest.mark.parametrize("name", ["a", "a-b.c9", "9", "x" * 253, "systemic"])
def test_create_takes_dns_subdomains(name):
    after = TABLE.create(PriorityClass(name=name, value=1))
    assert after.named(name, "name").value == 1
    assert name not in TABLE.classes


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", ".a", "a.", "a..b", "a.-b", "x" * 254, "é", "a\n"])
def test_create_refuses_other_names(name):
    assert refusal(TABLE.create, PriorityClass(name=name, value=1)).code == "bad_class_name"


@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1_000_000_000])
def test_create_takes_int32_up_to_one_billion(value):
    assert TABLE.create(PriorityClass(name="new", value=value)).named("new", "name").value == value


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"value": 1_000_000_001}, "class_value_too_high", "value"),
        ({"value": -(2**31) - 1}, "bad_class_value", "value"),
        ({"value": 2**31}, "bad_class_value", "value"),
        ({"value": True}, "bad_class_value", "value"),
        ({"name": "system-mine"}, "reserved_class_name", "name"),
        ({"name": "system-node-critical", "value": 2_000_001_000}, "class_exists", "name"),
        ({"name": "high"}, "class_exists", "name"),
        ({"global_default": True}, "second_global_default", "global_default"),
        ({"preemption_policy": "never"}, "bad_preemption_policy", "preemption_policy"),
        ({"preemption_policy": ""}, "bad_preemption_policy", "preemption_policy"),
    ],
)
def test_create_refuses(fields, code, field):
    refused = refusal(TABLE.create, changed(PriorityClass(name="new", value=1), **fields))
    assert (refused.code, refused.field) == (code, field)


def test_update_changes_description_and_default_only():
    after = TABLE.update(changed(HIGH, description="later"))
    assert after.named("high", "name").description == "later"
    assert TABLE.named("high", "name").description == "soon"
    assert TABLE.update(changed(USUAL, global_default=False)).global_default() is None


def test_update_of_a_built_in_may_change_its_description():
    after = TABLE.update(changed(BUILT_IN[0], description="ours"))
    assert after.named(BUILT_IN[0].name, "name").description == "ours"


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        (changed(HIGH, name="other"), "unknown_priority_class", "name"),
        (changed(HIGH, value=1001, description="later"), "immutable_class_field", "value"),
        (
            changed(HIGH, preemption_policy="PreemptLowerPriority"),
            "immutable_class_field",
            "preemption_policy",
        ),
        (changed(HIGH, preemption_policy=""), "bad_preemption_policy", "preemption_policy"),
        (changed(HIGH, value="1000"), "bad_class_value", "value"),
        (changed(HIGH, global_default=True), "second_global_default", "global_default"),
    ],
)
def test_update_refuses(given, code, field):
    refused = refusal(TABLE.update, given)
    assert (refused.code, refused.field) == (code, field)


def test_update_may_keep_the_default_in_force_but_no_other_default():
    two = ClassTable.of([USUAL, changed(HIGH, global_default=True)])
    assert two.update(changed(USUAL, description="x")).global_default() == changed(USUAL, description="x")
    assert refusal(two.update, changed(HIGH, global_default=True)).code == "second_global_default"
    assert two.update(HIGH).global_default() == USUAL


def test_delete_takes_user_classes_and_refuses_built_ins_and_unknown_ones():
    assert "high" not in TABLE.delete("high").classes
    assert refusal(TABLE.delete, "system-node-critical").code == "built_in_class"
    assert refusal(TABLE.delete, "nobody").code == "unknown_priority_class"


def test_of_several_imported_defaults_the_smallest_value_then_the_name_is_in_force():
    defaults = [
        PriorityClass(name=name, value=value, global_default=True) for name, value in (("b", 1), ("a", 1), ("c", 2))
    ]
    in_force = ClassTable.of(defaults).global_default()
    assert in_force is not None
    assert in_force.name == "a"


@pytest.mark.parametrize(
    ("name", "priority", "policy", "expected"),
    [
        ("high", None, None, (1000, "high", "Never")),
        ("high", 1000, "Never", (1000, "high", "Never")),
        ("low", -5, None, (-5, "low", "PreemptLowerPriority")),
        (None, None, None, (10, "usual", "PreemptLowerPriority")),
        ("", 10, "PreemptLowerPriority", (10, "usual", "PreemptLowerPriority")),
    ],
)
def test_resolution_takes_the_named_class_or_the_global_default(name, priority, policy, expected):
    resolved = resolve(TABLE, name, priority, policy, privileged=False)
    assert (resolved.class_value, resolved.name, resolved.preemption_policy) == expected


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_default_a_nameless_job_gets_zero_and_no_name(name):
    resolved = resolve(ClassTable.of([HIGH]), name, 0, None, privileged=False)
    assert (resolved.class_value, resolved.name, resolved.preemption_policy) == (
        0,
        None,
        "PreemptLowerPriority",
    )


@pytest.mark.parametrize(
    ("name", "priority", "policy", "code", "field"),
    [
        ("nobody", None, None, "unknown_priority_class", "priority_class"),
        ("HIGH", None, None, "unknown_priority_class", "priority_class"),
        ("system-node-critical", None, None, "system_priority_class", "priority_class"),
        ("high", 999, None, "priority_mismatch", "priority"),
        (None, 11, None, "priority_mismatch", "priority"),
        ("high", None, "PreemptLowerPriority", "preemption_policy_mismatch", "preemption_policy"),
        ("high", None, "", "preemption_policy_mismatch", "preemption_policy"),
    ],
)
def test_resolution_refuses(name, priority, policy, code, field):
    refused = refusal(resolve, TABLE, name, priority, policy, privileged=False)
    assert (refused.code, refused.field) == (code, field)


def test_privileged_submitters_may_use_system_classes():
    resolved = resolve(TABLE, "system-cluster-critical", 2_000_000_000, None, privileged=True)
    assert resolved.class_value == 2_000_000_000


def test_a_configuration_file_creates_what_is_missing_and_changes_nothing():
    configured = [
        changed(HIGH, value=7),
        PriorityClass(name="new", value=1),
        changed(LOW, global_default=True),
    ]
    reconciled = TABLE.reconcile(configured)
    assert [given.name for given in reconciled.created] == ["new"]
    assert reconciled.table.named("high", "name") == HIGH
    assert reconciled.table.named("low", "name") == LOW
    assert len(reconciled.differences) == 2
    assert "'high' keeps value 1000; the file says 7" in reconciled.differences[0]


def test_a_configured_second_default_is_not_created_but_told():
    reconciled = TABLE.reconcile([PriorityClass(name="new", value=1, global_default=True)])
    assert reconciled.table == TABLE
    assert "'usual'" in reconciled.differences[0]


def test_reading_fills_in_what_is_absent_or_null():
    document = {
        "name": "a",
        "value": 1,
        "preemption_policy": None,
        "description": None,
        "global_default": None,
    }
    assert read_class(document) == read_class({"name": "a", "value": 1}) == PriorityClass(name="a", value=1)


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"value": None}, "bad_class_value", "value"),
        ({"value": True}, "bad_class_value", "value"),
        ({"value": 1.0}, "bad_class_value", "value"),
        ({"value": "1"}, "bad_class_value", "value"),
        ({"value": 2**70}, "bad_class_value", "value"),
        ({"name": None}, "bad_class_name", "name"),
        ({"name": 5}, "bad_class_name", "name"),
        ({"preemption_policy": ""}, "bad_preemption_policy", "preemption_policy"),
        ({"preemption_policy": 1}, "bad_preemption_policy", "preemption_policy"),
        ({"global_default": 1}, "bad_class", "global_default"),
        ({"description": []}, "bad_class", "description"),
        ({"globalDefault": True}, "bad_class", "globalDefault"),
    ],
)
def test_reading_refuses(fields, code, field):
    refused = refusal(read_class, {"name": "a", "value": 1, **fields})
    assert (refused.code, refused.field) == (code, field)


def test_a_check_that_is_accepted_answers_the_classes_after():
    answer = check(
        {
            "existing": [{"name": "a", "value": 1}],
            "operation": "create",
            "class": {"name": "b", "value": 2, "preemption_policy": "Never"},
            "privileged": None,
        }
    )
    assert answer.accepted
    assert answer.code is answer.message is None
    assert [given.name for given in answer.classes] == [
        "a",
        "b",
        "system-cluster-critical",
        "system-node-critical",
    ]
    assert answer.classes[1].preemption_policy == "Never"


@pytest.mark.parametrize(
    ("operation", "fields", "code"),
    [
        ("create", {"class": {"name": "b"}}, "bad_class_value"),
        ("create", {"class": {"name": "system-b", "value": 1}, "privileged": True}, "reserved_class_name"),
        ("create", {"class": 5}, "bad_class"),
        ("create", {}, "bad_class"),
        ("update", {"class": {"name": "a"}}, "bad_class_value"),
        ("update", {"class": {"name": "a", "value": 2}}, "immutable_class_field"),
        ("update", {"class": {"name": "b", "value": 1}, "name": "a"}, "immutable_class_field"),
        ("update", {"class": {"name": "a", "value": 1, "preemption_policy": ""}}, "bad_preemption_policy"),
        ("delete", {"name": "b"}, "unknown_priority_class"),
        ("delete", {}, "bad_class_name"),
        ("delete", {"name": 5}, "bad_class_name"),
    ],
)
def test_a_check_that_is_refused_answers_the_classes_as_they_were(operation, fields, code):
    answer = check({"existing": [{"name": "a", "value": 1}], "operation": operation, **fields})
    assert (answer.accepted, answer.code) == (False, code)
    assert answer.message
    assert answer.classes == ClassTable.of([PriorityClass(name="a", value=1)]).listed()


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "update", "class": {"name": "a", "value": 1, "description": "x"}},
        {"operation": "update", "class": {"value": 1}, "name": "a"},
        {"operation": "delete", "name": "a"},
        {"operation": "delete", "class": {"name": "a", "value": 1}, "name": ""},
    ],
)
def test_the_target_may_be_named_inside_or_beside_the_class(fields):
    assert check({"existing": [{"name": "a", "value": 1}], **fields}).accepted


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$"),
        ([], "$"),
        ("create", "$"),
        ({}, "$.operation"),
        ({"operation": "patch"}, "$.operation"),
        ({"operation": ["create"]}, "$.operation"),
        ({"operation": "create", "clas": {}}, "$.clas"),
        ({"operation": "create", "privileged": "yes"}, "$.privileged"),
        ({"operation": "create", "existing": {}}, "$.existing"),
        ({"operation": "create", "existing": [{"name": "a"}]}, "$.existing[0].value"),
        ({"operation": "create", "existing": [5]}, "$.existing[0]"),
        ({"operation": "create", "existing": [{"name": "a", "value": 1}] * 2}, "$.existing[1].name"),
    ],
)
def test_a_malformed_document_is_answered_with_errors(document, path):
    errors = check(document).errors
    assert [problem.path for problem in errors] == [path]
    assert errors[0].message


def test_existing_classes_are_taken_as_they_are():
    existing = [{"name": "system-odd", "value": 2**31 - 1}, {"name": "A", "value": 1, "global_default": True}]
    answer = check({"existing": existing, "operation": "delete", "name": "A"})
    assert [given.name for given in answer.classes] == [
        "system-cluster-critical",
        "system-node-critical",
        "system-odd",
    ]
