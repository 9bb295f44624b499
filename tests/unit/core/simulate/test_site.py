from simulated import a_site

from rankd.core.model.node import Node
from rankd.core.simulate.site import first_come, leaf_of, pool, shape_of

LEAVES = {"name": "root", "queues": [{"name": "q2"}, {"name": "other", "queues": [{"name": "x"}]}]}


def test_a_pool_is_one_node_so_that_its_parts_do_not_matter():
    [node] = pool(338)
    assert node.capacity == {"vcore": 338_000}
    assert a_site(338).processors == 338


def test_a_job_of_a_pool_is_one_part():
    shape = shape_of(100, pool(338), "default")
    assert (shape.nodes, shape.resources) == (1, {"vcore": 100_000})


def test_a_job_of_several_nodes_has_as_few_equal_parts_as_the_largest_nodes_allow():
    nodes = [Node(name="a", capacity={"vcore": 16_000}), Node(name="b", capacity={"vcore": 64_000})]
    assert (shape_of(64, nodes, "p").nodes, shape_of(64, nodes, "p").resources) == (1, {"vcore": 64_000})
    assert (shape_of(100, nodes, "p").nodes, shape_of(100, nodes, "p").resources) == (2, {"vcore": 50_000})


def test_a_queue_of_the_trace_is_the_leaf_of_that_name_else_the_default_one():
    partition = a_site(1, root=LEAVES).partition
    assert leaf_of(partition, "Q2") == "root.q2"
    assert leaf_of(partition, "q7") == "root.q2"  # there is no root.default: the first leaf
    assert leaf_of(partition, "root.other.x") == "root.other.x"
    assert leaf_of(a_site(1).partition, "q7") == "root.default"


def test_plain_first_come_first_served_is_strict():
    site = first_come(a_site(1))
    assert (site.priority.policy, site.scheduling.backfill) == ("fcfs", "strict")
