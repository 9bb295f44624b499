"""A third party's node sorting policies, installed beside rankd: found, used everywhere, or refused clearly."""

from __future__ import annotations

import json

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster

from rankd.cli.main import main
from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.errors import ConfigurationError
from rankd.core.model.queue import NodeSort, Partition

STRANGER = """
class HalfFull:
    name = "half-full"
    def key(self, utilisation): return abs(utilisation - 0.5)
class Keyless:
    name = "keyless"
"""

ENTRIES = """[rankd.node_sort]
half-full = stranger_node_sort:HalfFull
renamed = stranger_node_sort:HalfFull
keyless = stranger_node_sort:Keyless
absent = stranger_node_sort:Absent
"""

INSTALLED = "absent, binpacking, fair, half-full, keyless, renamed"


@pytest.fixture(autouse=True)
def stranger(install):
    install("stranger_node_sort", STRANGER, ENTRIES)


@pytest.fixture
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def queues(policy, **fields):
    top = {"name": "root", "queues": [{"name": "default"}]}
    return {"partitions": [{"name": "default", "queues": [top], "nodesortpolicy": {"type": policy, **fields}}]}


def node(name, vcore=0, memory=0):
    """8 cores and 16 bytes, with so much of it used."""
    return {"name": name, "capacity": {"vcore": 8, "memory": 16}, "used": {"vcore": vcore, "memory": memory}}


def decided(nodes, *, jobs=0, **sort):
    """Names in ``node_order``, and where jobs of one core start."""
    document = {
        "now": NOW,
        "queues": queues(**{"policy": "half-full", "resourceweights": {"vcore": 1}, **sort}),
        "priority": {"policy": "class"},
        "nodes": nodes,
        "jobs": [{"id": id} for id in range(jobs)],
    }
    found = json.loads(msgspec.json.encode(Evaluator().evaluate(json.dumps(document).encode())))
    order = [row["name"] for row in found["node_order"]["default"]]
    return order, [name for row in found["allocations"] for name in row["nodes"]]


def test_evaluate_goes_by_its_key_then_by_name():
    order, _ = decided([node("c", 8), node("b", 2), node("a", 6), node("d", 4)])
    assert order == ["d", "a", "b", "c"]


def test_its_key_is_asked_for_again_after_each_placement():
    _, places = decided([node("a", 6), node("b", 3)], jobs=4)
    assert places == ["b", "b", "b", "a"]  # 4, 5, 6 of 8 on b; then a, as far from a half, by its name


def test_it_is_given_what_the_weights_make_of_a_node():
    nodes = [node("a", vcore=4), node("b", memory=8)]
    assert decided(nodes)[0] == ["a", "b"]
    assert decided(nodes, resourceweights={"memory": 2})[0] == ["b", "a"]
    assert decided(nodes, resourceweights={"vcore": 1, "memory": 3})[0] == ["b", "a"]


@pytest.mark.usefixtures("new_database")
async def test_the_scheduler_goes_by_its_key(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default"))
    partition = Partition(root=root, nodesort=NodeSort(type="half-full"))
    configuration = builder.configuration(partitions=(partition,))
    async with a_cluster(tmp_path, broker.url, configuration) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=16)
        await cluster.add_node("n2", vcore=4)
        # of 1 core each: the first goes to the fuller node, where "fair" has the other, the last to the emptier one
        for cores, expected in ((12, "n1"), (1, "n1"), (2, "n1"), (2, "n2"), (1, "n2")):
            (job,) = await cluster.submit(builder.accepted(resources={"vcore": 1000 * cores}))
            await prioritizer.run_once(NOW)
            assert await scheduler.run_once(NOW)
            assert cluster.rows("SELECT nodes FROM allocations WHERE job_id = ?", job) == [(f'["{expected}"]',)]


def test_a_configuration_may_name_it_in_its_own_case(tmp_path, capsys):
    directory = tmp_path / "config"
    directory.mkdir()

    def check(policy):
        (directory / "queues.yaml").write_text(json.dumps(queues(policy)))
        return main(["config", "check", str(directory)]), capsys.readouterr().out

    assert check("half-full")[0] == 0
    assert load_configuration(directory).partitions[0].nodesort.type == "half-full"
    status, said = check("Half-full")
    assert status != 0
    assert f"unknown node sorting policy 'Half-full'; installed: {INSTALLED}; case matters" in said
    status, said = check("keyless")
    assert status != 0
    assert "Keyless does not implement rankd.core.placement.node_table.NodeSortPolicy as 'keyless'" in said


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("missing", f"unknown node sorting policy 'missing'; installed: {INSTALLED}"),
        ("renamed", "HalfFull does not implement .*NodeSortPolicy as 'renamed'"),
        ("keyless", "Keyless does not implement .*NodeSortPolicy as 'keyless'"),
        ("absent", "stranger_node_sort:Absent can't be imported"),
    ],
)
def test_one_that_can_t_be_used_is_refused_with_what_is_wrong(policy, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        decided([], policy=policy)
    assert raised.value.problems[0].path.startswith("$")
