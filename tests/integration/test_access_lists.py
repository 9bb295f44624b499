"""Access lists of QoS, classes and accounts on a running intake: each way in, and a reload that opens and closes."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import an_intake

SETTINGS = """
[[qos]]
name = "normal"
[[qos]]
name = "high"
groups = ["ops"]
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent, annotations: {rankd/groups: ops}}
value: 10000
"""
ACCOUNTS = """
accounts:
  - {name: physics, users: [{name: alice}]}
  - {name: project, access: {groups: [ops]}}
  - {name: default, users: [{name: olga}]}
groups: [{name: ops, users: [olga]}]
"""
CLOSED = {
    "qos_access": {"qos": "high"},
    "class_access": {"priority_class": "urgent"},
    "account_access": {"account": "project"},
}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def write_lists(tmp_path) -> None:
    config = tmp_path / "config"
    (config / "rankd.toml").write_text(SETTINGS)
    (config / "priorityclasses.yaml").write_text(CLASSES)
    (config / "accounts.yaml").write_text(ACCOUNTS)


@pytest.fixture
async def stage(broker, tmp_path):
    """An intake of which a class `urgent` was known before its file had a list."""
    async with an_intake(broker, tmp_path) as stage:
        created = {"name": "urgent", "value": 10000}
        await stage.ask("rankd.v1.admin.root.class.create", created)
        write_lists(tmp_path)
        assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None
        yield stage


@pytest.mark.parametrize("code", CLOSED)
async def test_each_way_in_asks_the_lists(stage, code):
    job = {"command": ["true"], **CLOSED[code]}
    single = await stage.do("job.submit", job)
    assert (single.status, single.body["code"]) == (403, code)
    assert "which is for the group ops; name another" in single.body["message"]
    batch = await stage.do("job.submit", {"jobs": [job, {"command": ["true"]}]})
    assert [entry["code"] for entry in batch.body["rejected"]] == [code]
    own = batch.body["accepted"][0]["id"]
    update = await stage.do("job.update", {"id": own, **CLOSED[code]})
    assert (update.status, update.body["code"]) == (403, code)
    many = await stage.do("job.update", {"ids": [own], **CLOSED[code]})
    assert [entry["code"] for entry in many.body["failed"]] == [code]
    assert (await stage.ask("rankd.v1.admin.root.job.update", {"id": own, **CLOSED[code]})).body["done"] == [own]
    assert (await stage.do("job.update", {"id": own, "comment": "still mine"})).body["done"] == [own]
    assert (await stage.do("job.submit", job, "olga")).status is None
    assert (await stage.ask("rankd.v1.admin.root.job.submit", {**job, "user": "alice"})).status is None


async def test_what_is_enqueued_is_checked_as_well(stage):
    await stage.connection.jetstream().publish(
        "rankd.v1.enqueue.alice", b'{"command": ["true"], "qos": "high", "priority_class": "urgent"}'
    )
    await stage.until(lambda: stage.rows("SELECT code FROM dead_letters") == [("qos_access",)])


async def test_a_reload_opens_a_list_and_one_who_joined_by_it_leaves_with_it(stage, tmp_path):
    job = {"command": ["true"], "account": "project"}
    assert (await stage.do("job.submit", job, "olga")).status is None
    accounts = tmp_path / "config" / "accounts.yaml"
    accounts.write_text(ACCOUNTS.replace("access: {groups: [ops]}", "access: {users: [alice]}"))
    await stage.ask("rankd.v1.admin.root.config.reload", {})
    assert (await stage.do("job.submit", job, "olga")).body["code"] == "account_access"
    assert (await stage.do("job.submit", job, "alice")).status is None


async def test_a_class_that_is_made_while_rankd_runs_has_the_list_that_it_was_given(stage):
    job = {"command": ["true"], "priority_class": "deadline"}
    made = {"name": "deadline", "value": 5, "access": {"groups": ["ops"]}}
    given = (await stage.ask("rankd.v1.admin.root.class.create", made)).body
    assert given["access"] == {"users": [], "groups": ["ops"]}
    assert (await stage.do("class.show", {"name": "deadline"})).body == given
    refused = await stage.do("job.submit", job)
    assert (refused.status, refused.body["code"]) == (403, "class_access")
    assert "which is for the group ops" in refused.body["message"]
    assert (await stage.do("job.submit", job, "olga")).status is None
    waiting = await stage.submit()
    assert (await stage.do("job.update", {"id": waiting, "priority_class": "deadline"})).body["code"] == "class_access"
    await stage.ask("rankd.v1.admin.root.config.reload", {})
    assert (await stage.do("job.submit", job)).body["code"] == "class_access", "a reload keeps it"
    kept = {"name": "deadline", "value": 5, "description": "soon"}
    assert (await stage.ask("rankd.v1.admin.root.class.update", kept)).body["access"] == given["access"]
    assert (await stage.do("job.submit", job)).body["code"] == "class_access"
    opened = await stage.ask("rankd.v1.admin.root.class.update", {**kept, "access": {"users": ["alice"]}})
    assert opened.status is None
    assert (await stage.do("job.submit", job)).status is None
    assert (await stage.do("job.submit", job, "olga")).body["code"] == "class_access"
    assert "access" not in (await stage.ask("rankd.v1.admin.root.class.update", {**kept, "access": None})).body
    assert (await stage.do("job.submit", job, "bob")).status is None


async def test_the_configurations_list_goes_first_and_a_new_class_of_the_same_name_has_none(stage):
    closed = {"name": "urgent", "value": 10000, "access": {"users": ["alice"]}}
    assert (await stage.ask("rankd.v1.admin.root.class.update", closed)).status is None
    refused = await stage.do("job.submit", {"command": ["true"], "priority_class": "urgent"})
    assert refused.body["code"] == "class_access"
    own = {"name": "own", "value": 1, "access": {"users": ["olga"]}}
    await stage.ask("rankd.v1.admin.root.class.create", own)
    await stage.ask("rankd.v1.admin.root.class.delete", {"name": "own"})
    await stage.ask("rankd.v1.admin.root.class.create", {"name": "own", "value": 1})
    assert (await stage.do("job.submit", {"command": ["true"], "priority_class": "own"})).status is None


@pytest.mark.parametrize(
    ("access", "code"),
    [
        ("alice", "bad_class"),
        ({"user": ["alice"]}, "bad_class"),
        ({"users": "alice"}, "bad_class"),
        ({"users": ["x"] * 1_001}, "too_many"),
        ({"groups": ["x" * 1_025]}, "too_long"),
    ],
)
async def test_a_list_that_is_none_or_too_long_is_refused_and_makes_no_class(stage, access, code):
    refused = await stage.ask("rankd.v1.admin.root.class.create", {"name": "x", "value": 1, "access": access})
    assert refused.body["code"] == code
    assert (await stage.do("class.show", {"name": "x"})).status == 404
