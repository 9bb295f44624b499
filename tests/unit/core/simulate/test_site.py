from simulated import a_site, a_site_of

from rankd.core.model.node import Node
from rankd.core.simulate.site import first_come, leaf_named, leaf_of, pool

LEAVES = {"name": "root", "queues": [{"name": "q2"}, {"name": "other", "queues": [{"name": "x"}]}]}


def test_a_pool_is_one_node_so_that_its_parts_do_not_matter():
    [node] = pool(338)
    assert node.capacity == {"vcore": 338_000}
    site = a_site(338)
    assert (site.processors, site.partitions[0].is_pool) == (338, True)
    assert not a_site([Node(name="pool", capacity={"vcore": 338_000})]).partitions[0].is_pool


def test_a_site_has_the_cores_and_the_types_of_all_its_partitions():
    gpu = Node(name="g", capacity={"vcore": 3500, "gpu": 2})
    site = a_site_of({"cpu": [Node(name="n", capacity={"vcore": 16_000})], "gpu": [gpu, gpu]})
    assert (site.processors, site.types) == (22, {"vcore", "gpu"})
    assert site.partitions[1].totals == {"vcore": 7000, "gpu": 4}
    assert site.partitions[1].kinds == [({"gpu": 2, "vcore": 3500}, 2)]


def test_a_queue_of_the_trace_is_the_leaf_of_that_name_else_the_default_one():
    leaves = a_site(1, root=LEAVES).partitions[0].leaves
    assert leaves == ["root.q2", "root.other.x"]
    assert leaf_of(leaves, "Q2") == "root.q2"
    assert leaf_of(leaves, "q7") == "root.q2"  # there is no root.default: the first leaf
    assert leaf_of(leaves, "root.other.x") == "root.other.x"
    assert leaf_named(leaves, "q7") is leaf_named(leaves, "") is None
    assert leaf_of(a_site(1).partitions[0].leaves, "q7") == "root.default"


def test_plain_first_come_first_served_is_strict():
    site = first_come(a_site(1))
    assert (site.priority.policy, site.scheduling.backfill) == ("fcfs", "strict")
