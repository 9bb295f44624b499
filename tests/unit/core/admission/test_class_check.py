"""Priority classes as documents state them. ``high-priority`` is the example of Kubernetes' documentation."""

import msgspec
import pytest

from rankd.core.admission.class_check import CheckAnswer, MalformedAnswer, check, read_class, split_access
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList

HIGH = {
    "name": "high-priority",
    "value": 1000000,
    "global_default": False,
    "description": "This priority class should be used for XYZ service pods only.",
}


def test_the_published_class_is_read_and_has_the_published_default_policy():
    read = read_class(HIGH)
    assert (read.name, read.value, read.global_default) == ("high-priority", 1000000, False)
    assert read.preemption_policy == "PreemptLowerPriority"


def test_null_counts_as_absent_and_empty_text_does_not():
    assert read_class({**HIGH, "description": None, "preemption_policy": None}).description == ""
    with pytest.raises(Refused) as refusal:
        read_class({**HIGH, "preemption_policy": ""})
    assert refusal.value.code == "bad_preemption_policy"


@pytest.mark.parametrize("value", [1.0, "1", True, 2**31, None])
def test_a_value_is_a_whole_number_of_32_bits(value):
    with pytest.raises(Refused) as refusal:
        read_class({**HIGH, "value": value})
    assert refusal.value.code == "bad_class_value"


def test_an_operation_is_judged_and_the_classes_after_it_are_listed():
    created = check({"operation": "create", "class": HIGH})
    assert isinstance(created, CheckAnswer)
    assert created.accepted
    assert "high-priority" in [one.name for one in created.classes]
    twice = check({"existing": [HIGH], "operation": "create", "class": HIGH})
    assert not twice.accepted
    deleted = check({"existing": [HIGH], "operation": "delete", "name": "high-priority"})
    assert "high-priority" not in [one.name for one in deleted.classes]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "$"),
        ({"operation": "drop"}, "$.operation"),
        ({"operation": "create", "clas": HIGH}, "$.clas"),
        ({"operation": "create", "existing": [HIGH, HIGH]}, "$.existing[1].name"),
        ({"operation": "create", "existing": [{**HIGH, "value": "x"}]}, "$.existing[0].value"),
    ],
)
def test_a_document_that_asks_for_nothing_is_answered_with_the_path_of_its_fault(document, path):
    answer = check(document)
    assert isinstance(answer, MalformedAnswer)
    assert [problem.path for problem in answer.errors] == [path]


def test_an_access_list_is_apart_from_the_class():
    assert split_access(HIGH) == (HIGH, msgspec.UNSET)
    assert split_access({**HIGH, "access": None}) == (HIGH, None)
    assert split_access({**HIGH, "access": {"users": ["a"]}}) == (HIGH, AccessList(users=["a"]))
    assert split_access("no class") == ("no class", msgspec.UNSET)


@pytest.mark.parametrize("access", ["alice", [], 1, {"user": ["a"]}, {"users": "a"}, {"groups": [1]}])
def test_what_is_no_access_list_is_refused(access):
    with pytest.raises(Refused) as refusal:
        split_access({**HIGH, "access": access})
    assert (refusal.value.code, refusal.value.field) == ("bad_class", "access")
