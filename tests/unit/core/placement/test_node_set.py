"""Nodes as columns: what a demand needs of them, and which could hold it when empty."""

import msgspec
import numpy as np
import pytest
from builder import node, shape

from rankd.core.model.node import NodeState
from rankd.core.placement.node_set import SLOTS, NodeSet, rows_fitting, totals

GPU = node("b", labels={"gpu": "a100"})
GPU.capacity["gpu"] = 2
NODES = [node("c", vcore=8000), node("a", state=NodeState.DRAINING), GPU]


def able(asked):
    nodes = NodeSet(NODES)
    return [own.name for own, fits in zip(nodes.nodes, nodes.demand(asked).able, strict=True) if fits]


def test_rows_are_in_the_order_of_names_and_columns_in_the_order_of_types():
    nodes = NodeSet(NODES)
    assert [own.name for own in nodes.nodes] == ["a", "b", "c"]
    assert nodes.types == ["gpu", "vcore"]
    assert nodes.capacity.tolist() == [[0, 4000, SLOTS], [2, 4000, SLOTS], [0, 8000, SLOTS]]


def test_a_node_is_able_if_it_is_up_and_large_enough_and_has_the_labels():
    assert able(shape(vcore=1000)) == ["b", "c"]
    assert able(shape(vcore=8000)) == ["c"]
    assert able(shape(resources={"gpu": 1})) == ["b"]
    assert able(shape(constraints="gpu=a100")) == ["b"]
    assert able(shape(resources={"fpga": 1})) == []


@pytest.mark.parametrize(
    ("constraints", "names"),
    [
        ("rankd/node in (a,c,gone)", ["a", "c"]),
        ("rankd/node=b", ["b"]),
        ("rankd/node notin (a,gone)", ["b", "c"]),
        ("rankd/node notin (a),rankd/node in (a,b)", ["b"]),
        ("rankd/node in (a,b),gpu=a100", ["b"]),
        ("rankd/node", ["a", "b", "c"]),
        ("!rankd/node", []),
    ],
)
def test_each_node_has_its_name_as_a_label(constraints, names):
    nodes = NodeSet([msgspec.structs.replace(node, state=NodeState.UP) for node in NODES])
    demand = nodes.demand(shape(constraints=constraints))
    assert [node.name for node, is_able in zip(nodes.nodes, demand.able, strict=True) if is_able] == names
    assert demand.n_able == len(names)


def test_an_exclusive_demand_needs_every_slot_and_another_takes_one():
    nodes = NodeSet(NODES)
    assert nodes.demand(shape(exclusive=True)).vector[-1] == SLOTS
    assert nodes.demand(shape()).vector[-1] == 1


def test_equal_shapes_share_one_demand():
    nodes = NodeSet(NODES)
    assert nodes.demand(shape(vcore=5)) is nodes.demand(shape(vcore=5))
    assert nodes.demand(shape(vcore=5)) is not nodes.demand(shape(vcore=6))


def test_a_column_that_is_not_asked_for_may_be_below_zero():
    nodes = NodeSet(NODES)
    free = np.array([[-1, 1000, 1], [0, 999, 1], [0, 1000, 0]])
    assert rows_fitting(free, nodes.demand(shape(vcore=1000))).tolist() == [True, False, False]


def test_totals_count_nodes_that_are_up_or_draining():
    lost = node("l", vcore=1, state=NodeState.LOST)
    assert totals([*NODES, lost]) == {"vcore": 16000, "gpu": 2}
