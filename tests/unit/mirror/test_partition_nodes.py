from rankd.core.model.node import Node, NodeState
from rankd.mirror.partition_nodes import partition_nodes


def node(name, partition="p", state=NodeState.UP, **capacity):
    return Node(name=name, partition=partition, capacity=capacity, state=state)


def test_nodes_that_are_up_or_draining_count():
    nodes = [
        node("a", vcore=1500, gpu=1),
        node("b", vcore=500, state=NodeState.DRAINING),
        node("c", vcore=900, state=NodeState.DOWN),
        node("d", partition="q", vcore=700),
    ]
    found = partition_nodes(nodes, "p")
    assert found.n_nodes == 2
    assert found.total == {"vcore": 2000, "gpu": 1}
    assert found.cores == 2.0
    assert partition_nodes(nodes, "r").total == {}
