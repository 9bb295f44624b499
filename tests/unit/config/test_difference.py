"""What differs between two configurations, as people read it."""

import pytest

from rankd.config.change import Change
from rankd.config.difference import differences

TOML = """
default_qos = "normal"
[priority.weights]
age = 1000
fairshare = 10
[[qos]]
name = "normal"
[[qos]]
name = "high"
priority = 100
"""
ACCOUNTS = """
accounts:
  - {name: physics, shares: 3, users: [{name: alice, shares: 2}, {name: bob}]}
  - {name: biology}
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -5
"""


def said(old, new, file="rankd.toml"):
    return [str(change) for change in differences({file: old}, {file: new})]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("age = 1000", "age = 2000", ["priority.weights.age 1000 -> 2000"]),
        ("age = 1000\n", "", ["priority.weights.age removed: 1000"]),
        ("age = 1000", "age = 1000\nqos = 5", ["priority.weights.qos added: 5"]),
        ("priority = 100", "priority = 7", ["qos.high.priority 100 -> 7"]),
        ('name = "normal"\n', 'name = "normal"\nusage_factor = 2.0\n', ["qos.normal.usage_factor added: 2.0"]),
        ('"high"', '"huge"', ["qos.high removed: priority 100", "qos.huge added: priority 100"]),
        ("age = 1000", "age = 1000  # points", ["rankd.toml: other text, same content"]),
        ("age = 1000", "age = 1000", []),
    ],
)
def test_a_changed_key_is_named_with_both_values(old, new, wanted):
    assert said(TOML, TOML.replace(old, new)) == wanted


def test_entries_are_compared_by_their_names_wherever_they_stand():
    turned = """
accounts:
  - {name: biology, shares: 9}
  - {name: physics, shares: 3, users: [{name: bob}, {name: alice, shares: 1}, {name: carol, shares: 4}]}
"""
    assert said(ACCOUNTS, turned, "accounts.yaml") == [
        "accounts.physics.users.alice.shares 2 -> 1",
        "accounts.physics.users.carol added: shares 4",
        "accounts.biology.shares added: 9",
    ]


def test_queues_and_classes_are_told_by_their_names():
    queues = "partitions: [{name: default, queues: [{name: root, queues: [{name: a}%s]}]}]"
    more = ", {name: b, resources: {max: {vcore: 2}}}"
    path = "partitions.default.queues.root.queues"
    assert said(queues % "", queues % more, "queues.yaml") == [f"{path}.b added: resources"]
    assert said(queues % more, queues % more.replace("2", "4"), "queues.yaml") == [
        f"{path}.b.resources.max.vcore 2 -> 4"
    ]
    high = CLASSES.replace("low", "high").replace("-5", "7")
    assert said(CLASSES, CLASSES + "---" + high, "priorityclasses.yaml") == ["classes.high added: value 7"]
    assert said(CLASSES, CLASSES.replace("-5", "5"), "priorityclasses.yaml") == ["classes.low.value -5 -> 5"]


def test_a_file_that_comes_or_goes_is_told_key_by_key():
    assert differences({}, {"accounts.yaml": "accounts: [{name: x, shares: 2}]\n"}) == [
        Change(file="accounts.yaml", key="accounts", new="x")
    ]
    assert said(ACCOUNTS, "", "accounts.yaml") == ["accounts removed: physics, biology"]


def test_what_an_adapter_is_told_is_never_shown():
    text = '[[adapters]]\nname = "site"\ninput = "usage"\nadapter = "sql"\noptions = { url = "sql://me:secret@db" }\n'
    without, other = text[: text.index("options")], text.replace("secret", "hidden one")
    for old, new in (("", text), (text, ""), (text, other), (text, without)):
        found = said(old, new)
        assert len(found) == 1
        assert "secret" not in found[0]
        assert "hidden one" not in found[0]
    assert said(text, text.replace("secret", "other")) == ["adapters.site.options (hidden) -> (hidden)"]


def test_a_class_whose_access_list_changes_is_named():
    manifest = "metadata: {name: urgent, annotations: {rankd/groups: ops}}\nvalue: 1\n"
    assert said(manifest, manifest.replace("ops", "staff"), "priorityclasses.yaml") == [
        "classes.urgent.rankd/groups ops -> staff"
    ]
