"""A third party's application sorting policies, installed beside rankd: found, used everywhere, or refused clearly."""

from __future__ import annotations

import json
from types import SimpleNamespace

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster

from rankd.cli.main import main
from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.change import job_action
from rankd.core.errors import ConfigurationError
from rankd.core.model.queue import QueueProperties

STRANGER = """
class Busiest:
    name, goes_by_usage, holds_back = "busiest", True, False
    def key(self, shares): return (-max(shares, default=0.0),)
    def let_in(self, candidates, *, by_priority): raise AssertionError("nobody is held back")
class Newest:
    name, goes_by_usage, holds_back = "newest", False, True
    def key(self, shares): raise AssertionError("usage does not count")
    def let_in(self, candidates, *, by_priority): return [len(candidates) - 1]
class Keyless:
    name, goes_by_usage, holds_back = "keyless", True, False
"""

ENTRIES = """[rankd.application_sort]
busiest = stranger_sort:Busiest
newest = stranger_sort:Newest
renamed = stranger_sort:Busiest
keyless = stranger_sort:Keyless
absent = stranger_sort:Absent
"""


@pytest.fixture(autouse=True)
def stranger(install):
    install("stranger_sort", STRANGER, ENTRIES)


@pytest.fixture
def new_database(tmp_path):
    return builder.new_database(tmp_path)


BUSIEST = QueueProperties(sort_policy="busiest", sort_priority=False)


def queues(policy):
    leaf = {"name": "a", "properties": {"application.sort.policy": policy}}
    return {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [leaf]}]}]}


def named(id, application):
    return {"id": id, "application": application, "queue": "root.a"}


def decided(policy, applications, jobs, **fields):
    """The decision on a document; ``fields`` replace what is in it."""
    document = {
        "now": NOW,
        "queues": queues(policy),
        "priority": {"policy": "class"},
        "applications": [
            {"id": id, "queue": "root.a", "created_at": NOW - age, **more} for id, age, more in applications
        ],
        "jobs": [job if isinstance(job, dict) else named(*job) for job in jobs],
    } | fields
    found = Evaluator().evaluate(json.dumps(document).encode())
    return SimpleNamespace(**json.loads(msgspec.json.encode(found)))


def test_evaluate_goes_by_its_key():
    result = decided(
        "busiest",
        [("idle", 9, {}), ("some", 5, {"used": {"vcore": 1}}), ("most", 1, {"used": {"vcore": 2}})],
        [(1, "idle"), (2, None), (3, "some"), (4, "some"), (5, "some"), (6, "most"), (7, "idle")],
        nodes=[{"name": "n", "capacity": {"vcore": 10}}],
    )
    assert result.warnings == []
    assert result.application_order["root.a"] == ["most", "some", "idle", 2]
    assert result.ranking == [6, 3, 4, 5, 1, 7, 2]
    assert [row["job"] for row in result.allocations] == [6, 3, 4, 5, 1, 7, 2]


def test_a_cycle_takes_its_key_anew_after_each_placement():
    jobs = [named(1, "a"), named(2, "b"), named(3, "b") | {"class_value": 1}]
    node = {"name": "n", "capacity": {"vcore": 10}}
    result = decided("busiest", [("a", 9, {}), ("b", 5, {})], jobs, nodes=[node])
    assert result.ranking == [3, 1, 2]
    assert [row["job"] for row in result.allocations] == [3, 2, 1]


def test_evaluate_asks_its_filter_about_those_that_do_not_run():
    new = {"state": "accepted"}
    result = decided(
        "newest",
        [("oldest", 9, new), ("older", 8, {}), ("newest", 1, new), ("middle", 5, new)],
        [(1, "oldest"), (2, "older"), (3, "newest"), (4, "middle"), (5, None)],
    )
    assert result.ranking == [2, 3, 5]
    assert {row["id"]: row["reason"] for row in result.jobs if row["rank"] is None} == {
        1: "application waiting",
        4: "application waiting",
    }


@pytest.mark.usefixtures("new_database")
async def test_the_services_rank_and_start_by_its_key(broker, tmp_path):
    """Both applications' first jobs differ: only b's can start. Then b is busier, and a is older."""
    root = builder.parent("root", builder.leaf("root.default", properties=BUSIEST))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=3)
        big = builder.accepted(request={"application": "a"}, resources={"vcore": 4000})
        await cluster.submit(big, builder.accepted(request={"application": "b"}))
        await prioritizer.run_once(NOW)
        assert await scheduler.run_once(NOW)
        assert cluster.states() == {1: "pending", 2: "allocated"}
        small = [builder.accepted(request={"application": name}) for name in ("a", "b", "b")]
        await cluster.submit(*small, at=NOW + 1)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [4, 5, 1, 3]
        more = [builder.accepted(request={"application": name}) for name in ("b", "a", "c", None)]
        later = await cluster.submit(*more, at=NOW + 1)
        while await prioritizer.insert_once(NOW + 1):
            pass
        assert cluster.rows("SELECT kind FROM generation ORDER BY number DESC LIMIT 1") == [("delta",)]
        assert cluster.ranking() == [4, 5, 6, 1, 3, 7, 9, 8]
        for job in later:
            await cluster.act(job_action.cancel, job)
        await prioritizer.run_once(NOW + 1)
        assert await scheduler.run_once(NOW + 1)
        assert {job for job, state in cluster.states().items() if state == "allocated"} == {2, 4, 5}
        assert cluster.rows("SELECT DISTINCT sort_policy FROM queue_priority WHERE path = 'root.default'") == [
            ("busiest",)
        ]


@pytest.mark.usefixtures("new_database")
async def test_the_services_hold_back_whom_it_does_not_let_in(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default", properties=QueueProperties(sort_policy="newest")))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=9)
        await cluster.submit(builder.accepted(request={"application": "old"}))
        await cluster.submit(builder.accepted(request={"application": "new"}), at=NOW + 1)
        await prioritizer.run_once(NOW + 1)
        assert cluster.ranking() == [2]
        assert await scheduler.run_once(NOW + 1)
        assert cluster.states() == {1: "pending", 2: "allocated"}
        [(reason, fact)] = cluster.rows("SELECT reason, reason_fact FROM job WHERE id = 1")
        assert reason == "application waiting"
        assert "root.default" in fact


def test_a_configuration_may_name_it_in_its_own_case_and_the_check_says_so(tmp_path, capsys):
    directory = tmp_path / "config"
    directory.mkdir()
    (directory / "queues.yaml").write_text(json.dumps(queues("busiest")))
    found = load_configuration(directory)
    assert found.partitions[0].root.queues[0].properties.sort_policy == "busiest"
    assert found.warnings == ()
    (directory / "queues.yaml").write_text(json.dumps(queues("Busiest")))
    found = load_configuration(directory)
    assert found.partitions[0].root.queues[0].properties.sort_policy == "fifo"
    assert "busiest, fair, fifo" in found.warnings[0].message
    (directory / "queues.yaml").write_text(json.dumps(queues("keyless")))
    assert main(["config", "check", str(directory)]) != 0
    assert "Keyless does not implement" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("renamed", "Busiest does not implement .*ApplicationSortPolicy as 'renamed'"),
        ("keyless", "Keyless does not implement .*ApplicationSortPolicy as 'keyless'"),
        ("absent", "stranger_sort:Absent can't be imported"),
    ],
)
def test_one_that_can_t_be_used_is_refused_with_what_is_wrong(policy, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        decided(policy, [], [])
    assert raised.value.problems[0].path.startswith("$")


def test_one_that_a_queue_is_given_on_first_use_is_loaded_too():
    template = {"properties": {"application.sort.policy": "newest"}}
    root = {"name": "root", "queues": [{"name": "made", "parent": True, "childtemplate": template}]}
    document = {"partitions": [{"name": "default", "queues": [root]}]}
    jobs = [{"id": 1, "queue": "root.made.x", "application": "x"}]
    result = decided("fifo", [], jobs, queues=document)
    assert result.ranking == [1]
    assert result.rejected == []
