import pytest
from builder import GIB, node, shape, table

from rankd.core.model.node import Node, NodeState


def choose(nodes_table, asked):
    """Rows of the nodes that a shape gets when nothing else counts."""
    rows = nodes_table.best(nodes_table.fitting(nodes_table.demand(asked)), asked.nodes)
    return rows if len(rows) >= asked.min_nodes else []


def take(nodes_table, rows, asked):
    for row in rows:
        nodes_table.occupy(row, nodes_table.share(row, nodes_table.demand(asked)))


def fitting(nodes_table, asked):
    return nodes_table.fitting(nodes_table.demand(asked)).tolist()


def names(nodes_table, asked):
    return [nodes_table.nodes[row].name for row in choose(nodes_table, asked)]


def filled(name, vcore, memory, **fields):
    """A node of 10 cores and 10 GiB with so much of it used."""
    return Node(
        name=name,
        capacity={"vcore": 10_000, "memory": 10 * GIB},
        used={"vcore": vcore, "memory": memory * GIB},
        **fields,
    )


# --- utilisation: the examples of YuniKorn's sorting policies ---------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "utilisation"),
    [
        ({"vcore": 1.0, "memory": 1.0}, 0.70),
        ({"vcore": 4.0, "memory": 1.0}, 0.82),
        ({"vcore": 1.0, "memory": 0.0}, 0.90),
        ({"vcore": 0.0, "memory": 0.0}, 0.0),  # nothing counts
        ({"vcore": 1.0, "memory": 1.0, "gpu": 100.0}, 0.70),  # a type that the node does not have
        ({"memory": 2.0}, 0.50),
    ],
)
def test_utilisation_is_the_weighted_mean_of_what_is_used(weights, utilisation):
    assert table(filled("n1", 9000, 5), weights=weights).utilisation().tolist() == [utilisation]


def test_types_without_capacity_do_not_count():
    odd = Node(name="n1", capacity={"vcore": 10_000, "memory": 0}, used={"vcore": 5000})
    assert table(odd).utilisation().tolist() == [0.5]


def test_a_node_without_anything_is_not_used():
    assert table(Node(name="n1", capacity={})).utilisation().tolist() == [0.0]


def test_fair_takes_the_least_used_node_and_binpacking_the_most_used_that_fits():
    nodes = [filled("a", 5000, 5), filled("b", 1000, 1), filled("c", 9500, 9)]
    assert names(table(*nodes), shape(1000)) == ["b"]
    assert names(table(*nodes, policy="binpacking"), shape(1000)) == ["a"]
    assert names(table(*nodes, policy="binpacking"), shape(500)) == ["c"]


@pytest.mark.parametrize("policy", ["fair", "binpacking"])
def test_equally_used_nodes_go_by_name_whatever_their_order(policy):
    assert names(table(node("n10"), node("n2"), node("n1"), policy=policy), shape(nodes=3)) == ["n1", "n10", "n2"]


@pytest.mark.parametrize("policy", ["fair", "binpacking"])
def test_nodes_equal_to_twelve_decimals_tie(policy):
    # 0.1 + 0.2 is not 0.3 in floats: the same part is used, computed over different amounts
    one = Node(name="b", capacity={"vcore": 10, "memory": 10}, used={"vcore": 1, "memory": 2})
    other = Node(name="a", capacity={"vcore": 100, "memory": 1000}, used={"vcore": 20, "memory": 100})
    assert names(table(one, other, policy=policy), shape(1)) == ["a"]


def test_taking_room_changes_who_is_next():
    nodes = table(node("a"), node("b"))
    asked = shape(1000)
    order = []
    for _ in range(8):
        places = choose(nodes, asked)
        take(nodes, places, asked)
        order += [nodes.nodes[place].name for place in places]
    assert order == ["a", "b"] * 4
    assert choose(nodes, asked) == []


def test_binpacking_fills_a_node_before_the_next():
    nodes = table(node("a", 2000), node("b", 2000), policy="binpacking")
    order = []
    for _ in range(4):
        places = choose(nodes, shape(1000))
        take(nodes, places, shape(1000))
        order += [nodes.nodes[place].name for place in places]
    assert order == ["a", "a", "b", "b"]


# --- what fits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (shape(4000), ["a", "c"]),
        (shape(4001), ["c"]),
        (shape(8001), []),
        (shape(1000), ["a", "b", "c"]),
        (shape(1000, constraints="gpu=a100"), ["c"]),
        (shape(1000, constraints="!gpu"), ["a", "b"]),
        (shape(1000, exclusive=True), ["a", "c"]),
        (shape(0, resources={"gpu": 2}), ["c"]),
        (shape(0, resources={"fpga": 1}), []),
        (shape(0, resources={}), ["a", "b", "c"]),
    ],
)
def test_a_node_fits_by_its_free_amounts_its_labels_and_emptiness_for_exclusive_jobs(asked, fits):
    nodes = table(
        node("a"),
        node("b", used={"vcore": 1}),
        Node(name="c", capacity={"vcore": 8000, "gpu": 2}, labels={"gpu": "a100"}),
    )
    assert [n.name for n, fit in zip(nodes.nodes, fitting(nodes, asked), strict=True) if fit] == fits


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.UP])
def test_only_nodes_that_are_up_take_anything(state):
    nodes = table(node("a", state=state))
    assert choose(nodes, shape()) == []
    assert not nodes.demand(shape()).able.any()


def test_could_hold_asks_for_capacity_not_for_room():
    nodes = table(node("full", used={"vcore": 4000}), node("small", 500))
    assert nodes.demand(shape(1000)).able.tolist() == [True, False]
    assert fitting(nodes, shape(1000)) == [False, False]
    assert nodes.demand(shape(1000, exclusive=True)).able.tolist() == [True, False]


def test_a_gang_gets_all_its_nodes_or_none():
    nodes = table(node("a"), node("b"), node("c", 500))
    assert names(nodes, shape(1000, nodes=2)) == ["a", "b"]
    assert names(nodes, shape(1000, nodes=3)) == []


def test_a_gang_gets_the_best_nodes_by_the_policy():
    nodes = [node("a", used={"vcore": 2000}), node("b"), node("c", used={"vcore": 1000})]
    assert names(table(*nodes), shape(1000, nodes=2)) == ["b", "c"]
    assert names(table(*nodes, policy="binpacking"), shape(1000, nodes=2)) == ["a", "c"]


@pytest.mark.parametrize(
    ("nodes", "least", "given"), [(4, 4, 0), (4, 3, 3), (4, 1, 3), (2, 1, 2), (9, 3, 3), (9, 4, 0), (1, 1, 1)]
)
def test_with_min_nodes_a_job_gets_as_many_as_fit_down_to_those(nodes, least, given):
    three = table(node("a"), node("b"), node("c"), node("d", 500))
    assert len(choose(three, shape(1000, nodes=nodes, min_nodes=least))) == given


def test_an_exclusive_job_takes_its_node_whole():
    nodes = table(node("a", 4000))
    alone = shape(1000, exclusive=True)
    take(nodes, choose(nodes, alone), alone)
    assert choose(nodes, shape(1)) == []
    assert nodes.utilisation().tolist() == [1.0]


# --- totals -----------------------------------------------------------------------------------------------------


def test_totals_count_nodes_that_are_up_or_draining():
    nodes = [node(state, 1000, state=state) for state in NodeState]
    assert table(*nodes).set.totals == {"vcore": 2000}


def test_without_nodes_there_is_no_total_and_nothing_fits():
    nodes = table()
    assert nodes.set.totals == {}
    assert choose(nodes, shape()) == []
    assert nodes.demand(shape()).able.tolist() == []


def test_a_table_leaves_the_nodes_that_it_was_made_of_alone():
    one = node("a", used={"vcore": 1000})
    nodes = table(one)
    take(nodes, [0], shape(1000))
    assert one.used == {"vcore": 1000}
