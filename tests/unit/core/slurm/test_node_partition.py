"""Partitions with common nodes stay together, others stay apart."""

from rankd.core.slurm.node_partition import node_partitions
from rankd.core.slurm.partition import Access, Partition
from rankd.core.slurm.reading import Reading

NODES = ["n1", "n2", "n3", "g1", "g2", "login"]


def placed(*partitions, known=NODES):
    own, reading = Reading("import"), Reading("slurm.conf")
    found = node_partitions([(one, reading) for one in partitions], known, own)
    return found, [remark.message for remark in (*reading.remarks, *own.remarks)]


def part(name, nodes, **more):
    return Partition(name=name, line=1, nodes=nodes, **more)


def test_partitions_without_a_common_node_become_partitions_of_their_own():
    found, remarks = placed(part("gpu", "g[1-2]"), part("cpu", "n[1-3]", is_default=True))
    assert found.of == {"gpu": "gpu", "cpu": "default"}
    assert found.nodes == {"gpu": {"g1", "g2"}, "default": {"n1", "n2", "n3"}}
    assert any(one.startswith("start the agents of g[1-2] with --partition gpu") for one in remarks)
    assert any(one.startswith("login: in no partition that users may use") for one in remarks)


def test_partitions_that_a_third_one_links_are_together_and_their_nodes_are_named():
    found, remarks = placed(part("a", "n1"), part("b", "n2"), part("c", "n[1-2]"), part("d", "g1"))
    assert found.of == {"a": "default", "b": "default", "c": "default", "d": "d"}
    assert [one.partition(": other")[0] for one in remarks if "Nodes=" in one] == [
        "partition 'a': no equivalent in rankd for Nodes=n1", "partition 'b': no equivalent in rankd for Nodes=n2",
    ]  # fmt: skip


def test_a_closed_partition_links_nothing():
    closed = part("admin", "", access=Access(closed=("RootOnly=YES",)))
    found, _ = placed(closed, part("a", "n[1-3]"), part("g", "g[1-2]"))
    assert found.of == {"a": "default", "g": "g"}


def test_equal_nodes_need_no_remark():
    assert placed(part("a", "n[1-2]"), part("b", "n[1-2]"), known=["n1", "n2"])[1] == []


def test_nodes_that_can_not_be_read_are_named_and_all_stay_together():
    for nodes in ("big", "n[", "n[1-9999999999999999]"):
        found, remarks = placed(part("a", nodes), part("b", "g1"))
        assert found.of == {"a": "default", "b": "default"}
        assert found.nodes == {}
        assert any("its queue runs on all nodes" in one for one in remarks)
