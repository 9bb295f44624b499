from pathlib import Path

import pytest

from rankd.config.priority_classes import read_priority_classes
from rankd.core.errors import ConfigurationError
from rankd.core.model.priority_class import PriorityClass

SHIPPED = Path(__file__).parents[3] / "config" / "priorityclasses.yaml"

HIGH = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high
  labels: {team: a}
  annotations:
    note: any metadata is Kubernetes' business
value: 1000
globalDefault: true
description: "soon"
preemptionPolicy: Never
"""

MINIMAL = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: minimal}
value: -7
"""


def problems(text):
    with pytest.raises(ConfigurationError) as caught:
        read_priority_classes(text)
    return [(problem.path, problem.line) for problem in caught.value.problems]


def test_a_manifest_is_read_whole():
    assert read_priority_classes(HIGH) == (
        PriorityClass(name="high", value=1000, global_default=True, description="soon", preemption_policy="Never"),
    )


def test_several_documents_are_read_in_their_order():
    assert [given.name for given in read_priority_classes(f"---\n{HIGH}---\n{MINIMAL}---\n")] == [
        "high",
        "minimal",
    ]


def test_absent_and_null_fields_get_their_defaults():
    text = f"{MINIMAL}globalDefault: null\ndescription:\npreemptionPolicy: ~\n"
    assert read_priority_classes(text) == (PriorityClass(name="minimal", value=-7),)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "---\n---\n", "null\n"])
def test_an_empty_file_has_no_classes(text):
    assert read_priority_classes(text) == ()


@pytest.mark.parametrize(
    "head",
    ["apiVersion: v1\nkind: List", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClassList\nmetadata: {}"],
)
def test_lists_as_kubectl_prints_them_are_read(head):
    text = f"{head}\nitems:\n- metadata: {{name: a}}\n  value: 1\n- metadata: {{name: b}}\n  value: 2\n"
    assert [given.value for given in read_priority_classes(text)] == [1, 2]


def test_built_ins_with_their_own_value_are_passed_over():
    text = HIGH.replace("name: high", "name: system-node-critical").replace("1000", "2000001000")
    assert read_priority_classes(text) == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "line"),
    [
        ("value: 1000", "value: 1000000001", "value", 8),
        ("value: 1000", "value: 99999999999", "value", 8),
        ("value: 1000", "value: '1000'", "value", 8),
        ("value: 1000", "value: 1.5", "value", 8),
        ("value: 1000", "value: true", "value", 8),
        ("value: 1000", "value: [1]", "value", 8),
        ("value: 1000\n", "", "value", 1),
        ("name: high", "name: High", "metadata.name", 4),
        ("name: high", "name: system-high", "metadata.name", 4),
        ("name: high", "name: system-node-critical", "metadata.name", 4),
        ("  name: high\n", "", "metadata.name", 3),
        ("Never", "never", "preemptionPolicy", 11),
        ("Never", '""', "preemptionPolicy", 11),
        ("globalDefault: true", "globalDefault: 1", "globalDefault", 9),
        ("globalDefault: true", "global_default: true", "global_default", 9),
        ("kind: PriorityClass", "kind: Pod", "kind", 2),
        ("k8s.io/v1", "k8s.io/v1beta1", "apiVersion", 1),
        ("value: 1000", "value: 1\nvalue: 2", "value", 9),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old, new, path, line):
    assert (path, line) in problems(HIGH.replace(old, new))


@pytest.mark.parametrize(("text", "line"), [("a: [1\n", 2), ("5\n", 1), ("- a\n", 1), ("a: 1\n--- \n\x01", 3)])
def test_what_is_no_manifest_is_told_with_its_line(text, line):
    assert line in {found for _, found in problems(text)}


def test_everything_wrong_is_told_at_once():
    found = problems(f"{HIGH.replace('1000', 'x').replace('true', 'maybe')}---\n{MINIMAL.replace('kind', 'knd')}")
    assert {path for path, _ in found} == {"value", "globalDefault", "knd", "kind"}


def test_a_second_class_of_a_name_and_a_second_default_are_told():
    second = HIGH.replace("name: high", "name: other")
    assert ("globalDefault", 21) in problems(f"{HIGH}---\n{second}")
    assert problems(f"{MINIMAL}---\n{MINIMAL}") == [("metadata.name", 8)]


def test_the_shipped_file_is_read():
    values = {given.name: given.value for given in read_priority_classes(SHIPPED.read_text())}
    assert values == {"low": -1000, "high": 1000, "urgent": 10000}
