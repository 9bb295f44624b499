"""``rankd whatif`` from columns says what it says from a document of the state."""

from __future__ import annotations

import json
import random

import builder
import pytest
from integration.stage import NOW, a_cluster
from postgres_server import server

from rankd.cli.main import main
from rankd.cli.what_if import live_answer, whatif
from rankd.config.configuration import load_configuration
from rankd.core.change.job_action import hold
from rankd.core.model.array import parse_array
from rankd.core.model.priority_class import PriorityClass
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import read_catalog
from rankd.store.record.priority_class import change_classes
from rankd.store.schema.migration import upgrade

TOML = """
default_qos = "normal"
[priority.weights]
age = 100
qos = 50
fairshare = 1000
queue = 10
size = 300
user = 20
[admission]
unknown_association = "{rule}"
[[qos]]
name = "normal"
priority = 10
[[qos]]
name = "high"
priority = 100
"""
ACCOUNTS = """
accounts:
  - {name: physics, shares: 3, users: [{name: alice}, {name: bob}]}
  - {name: biology, shares: 1, users: [{name: carol, shares: 5}, {name: bob}]}
"""
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: default
          - {name: low, properties: {priority.policy: fence, priority.offset: "-200"}, queues: [{name: a}, {name: b}]}
          - {name: fast, properties: {priority.offset: "40"}}
"""
OWNERS = (("alice", "physics"), ("bob", "physics"), ("bob", "biology"), ("carol", "biology"))
CLASSES = {"gold": 500, "lead": -300}


def configuration_in(directory, rule):
    directory.mkdir()
    (directory / "rankd.toml").write_text(TOML.format(rule=rule))
    (directory / "accounts.yaml").write_text(ACCOUNTS)
    (directory / "queues.yaml").write_text(QUEUES)
    return load_configuration(directory)


def some_job(rng):
    (user, account), name = rng.choice(OWNERS), rng.choice([None, *CLASSES])
    asked = {"vcore": 1000 * rng.randint(1, 8)}
    array = parse_array("0-9") if rng.random() < 0.1 else None
    return builder.accepted(
        user, account=account, qos=rng.choice(("normal", "high")), array=array, priority_class=name,
        queue=rng.choice(("root.default", "root.low.a", "root.low.b", "root.fast")),
        class_value=CLASSES.get(name or "", 0), nodes=rng.randint(1, 3), resources=asked, urgency=rng.randint(1, 31),
    )  # fmt: skip


async def filled(cluster):
    """Jobs of all kinds, of which some run and some are held; bob has used a lot."""
    rng = random.Random(7)
    classes = [PriorityClass(name=name, value=value) for name, value in CLASSES.items()]
    for one in classes:
        await cluster.database.write(lambda c, one=one: change_classes(c, lambda table: table.create(one)))
    cluster.catalog = await cluster.database.read(read_catalog)
    for number in range(4):
        await cluster.add_node(f"n{number}", vcore=8)
    for at in range(60):
        await cluster.submit(some_job(rng), at=NOW - 5000 + 70 * at)
    usage = "UPDATE associations SET usage = 1e6 WHERE \"user\" = 'bob'"
    await cluster.database.write(lambda c: c.exec_driver_sql(usage))
    await cluster.act(hold, 5, 17)
    await cluster.prioritizer().run_once(NOW)
    await cluster.scheduler().run_once(NOW)
    await cluster.prioritizer().run_once(NOW + 600)


@pytest.fixture
def ask(tmp_path, capfd, monkeypatch):
    """What a command says, from a document or from columns."""

    def asked(*words, from_columns, submit=None, db=tmp_path / "rankd.db"):
        monkeypatch.setattr(live_answer, "MOST_PLACED", -1)
        monkeypatch.setattr(whatif, "live_answer", live_answer.live_answer if from_columns else lambda *_: None)
        if submit is not None:
            (tmp_path / "job.json").write_text(json.dumps(submit))
            words = (*words, "--submit", str(tmp_path / "job.json"))
        place = ["--db", str(db), "--live-config", str(tmp_path / "live")]
        capfd.readouterr()
        status = main(["whatif", "--json", *place, *words])
        out, err = capfd.readouterr()
        assert status == 0, err
        return json.loads(out)

    return asked


CHANGES = (
    ["--weights", "qos=9000"], ["--weights", "fairshare=-500", "age=0"], ["--class-value", "gold=-700", "lead=2000"],
    ["--qos", "normal=700"], ["--offset", "root.low=900"], ["--offset", "root.FAST=-3000", "root.low.b=50"],
    ["--weights", "size=9000", "--class-value", "lead=10", "--qos", "high=0", "--offset", "root.fast=0"],
    ["--weights", "age=100"],
)  # fmt: skip


@pytest.mark.parametrize("rule", ["default", "zero"])
async def test_the_same_jobs_move_whichever_way_it_is_computed(broker, tmp_path, ask, rule):
    builder.new_database(tmp_path)
    live = configuration_in(tmp_path / "live", rule)
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await filled(cluster)
        states = set(cluster.states().values())
        for words in CHANGES:
            found, wanted = (ask(*words, from_columns=way) for way in (True, False))
            assert found == wanted, words
            assert ask(*words, "--summary", from_columns=True) == wanted | {"jobs": []}
        assert any(ask(*words, from_columns=True)["moved"] for words in CHANGES)
    assert {"pending", "allocated"} <= states


NEW = (
    {"command": ["true"], "user": "bob", "account": "biology", "qos": "high", "resources": {"vcore": 2}},
    {"command": ["true"], "user": "carol", "priority_class": "gold", "queue": "root.low.a", "nodes": 2},
    {"command": ["true"], "user": "newcomer", "time_limit_s": 60},
    {"command": ["true"], "user": "alice", "queue": "root.none"},
)


async def test_a_new_job_lands_at_the_same_place_whichever_way_it_is_computed(broker, tmp_path, ask):
    """Where it would start is said from a document only. A user who is new joins the tree of shares."""
    builder.new_database(tmp_path)
    live = configuration_in(tmp_path / "live", "default")
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await filled(cluster)
        for job in NEW:
            for words in ([], ["--class-value", "gold=-900"]):
                found, wanted = (ask(*words, submit=job, from_columns=way) for way in (True, False))
                [here], [there] = found.pop("submitted"), wanted.pop("submitted")
                assert found == wanted, job
                assert here.pop("is_placed") == (here["error"] is not None)
                for name in ("nodes", "starts_at", "reason", "is_placed"):
                    here.pop(name, None), there.pop(name, None)
                assert here == there


async def test_a_server_is_asked_in_the_same_way(broker, tmp_path, ask):
    name = server().make()
    url = server().url(name)
    live = configuration_in(tmp_path / "live", "default")
    async with open_database(url) as database:
        await upgrade(database)

    def open_server(_path, **given):
        return open_database(url, **given)

    async with a_cluster(tmp_path, broker.url, live, kind=open_server) as cluster:
        await filled(cluster)
        for words in CHANGES[2:7]:
            assert ask(*words, from_columns=True, db=url) == ask(*words, from_columns=False, db=url)
    server().drop(name)
