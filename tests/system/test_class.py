"""Priority classes on the command line, with a real daemon."""

from __future__ import annotations

import json

import pytest
from system.client import connected

MANIFESTS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: from-kubernetes}
value: 77
preemptionPolicy: Never
description: As it is there.
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: batch}
value: 5
"""


@pytest.fixture(scope="module")
def site(shared_machine):
    """One for the tests that delete what they have created."""
    shared_machine.start("--no-local-agent", "--simulate", "1")
    return shared_machine


async def test_classes_are_created_shown_updated_and_deleted_on_the_command_line(site):
    rankd = site.rankd
    made = rankd("class", "create", "--admin", "batch", "--value", "-10", "--description", "can wait")
    assert made == "priority class batch created\n"
    _refused(site, "exists already", "create", "batch", "--value", "1")
    _refused(site, "needs a value", "create", "nothing")
    rankd("class", "update", "--admin", "batch", "--global-default")
    expected = {
        "name": "batch", "value": -10, "global_default": True, "description": "can wait",
        "preemption_policy": "PreemptLowerPriority",
    }  # fmt: skip
    by_bus = ("--nats", site.up["nats"])
    assert json.loads(rankd("class", "show", "batch", "--json")) == expected
    assert json.loads(rankd("class", "show", "batch", "--json", *by_bus)) == expected
    _refused(site, "can't become 3", "update", "batch", "--value", "3", "--description", "new")
    async with connected(site.up["nats"], site.services) as client:
        [job] = await client.submit("alice", {"command": ["true"], "held": True})
    rankd("class", "delete", "--admin", "batch")
    assert site.rows("SELECT class_value, priority_class FROM job WHERE id = ?", job) == [
        {"class_value": -10, "priority_class": "batch"}
    ]
    _refused(site, "unknown priority class 'batch'", "update", "batch", "--description", "gone")
    listed = [line.split()[:3] for line in rankd("class", "list", "-h").splitlines()]
    assert listed[:2] == [["system-node-critical", "2000001000", "no"], ["system-cluster-critical", "2000000000", "no"]]
    assert rankd("class", "list", "--json") == rankd("class", "list", "--json", *by_bus)


def test_manifests_of_kubernetes_are_created_and_what_is_refused_stops_nothing(site):
    file = site.directory.parent / "classes.yaml"
    file.write_text(MANIFESTS)
    site.rankd("class", "create", "--admin", "batch", "--value", "5")
    assert (
        site.rankd("class", "create", "--admin", "-f", str(file), status=1)
        == "priority class from-kubernetes created\n"
    )
    shown = site.rankd("class", "show", "from-kubernetes").splitlines()
    assert [line.split(maxsplit=1) for line in shown] == [
        ["name", "from-kubernetes"], ["value", "77"], ["global_default", "no"],
        ["description", "As it is there."], ["preemption_policy", "Never"],
    ]  # fmt: skip
    file.write_text(MANIFESTS.replace("As it is there.", "Otherwise."))
    assert site.rankd("class", "update", "--admin", "-f", str(file)).count("updated") == 2
    assert json.loads(site.rankd("class", "show", "from-kubernetes", "--json"))["description"] == "Otherwise."
    site.rankd("class", "delete", "--admin", "system-node-critical", "batch", "from-kubernetes", status=1)
    left = {row["name"] for row in json.loads(site.rankd("class", "list", "--json"))}
    assert "system-node-critical" in left
    assert not left & {"batch", "from-kubernetes"}


def test_only_one_of_name_and_file_is_taken(machine):
    machine.rankd("class", "create", "--admin", status=2)
    machine.rankd("class", "create", "--admin", "a", "-f", "x.yaml", status=2)
    machine.rankd("class", "list", status=3)


def _refused(machine, said: str, *words: str) -> None:
    """The daemon's answer is one line of error, and the table stays."""
    before = machine.rankd("class", "list", "--json")
    with pytest.raises(AssertionError, match=f"^rankd: .*{said}.*\\n"):
        machine.rankd("class", *words, "--admin")
    assert machine.rankd("class", *words, "--admin", status=1) == ""
    assert machine.rankd("class", "list", "--json") == before
