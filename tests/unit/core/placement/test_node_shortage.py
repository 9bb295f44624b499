"""What each node lacks for a job that waits for room."""

from rankd.core.placement.node_shortage import NodeRoom, node_shortages


def node(name, capacity, used=None, *, labels=None, is_empty=False):
    return NodeRoom(name=name, capacity=capacity, used=used or {}, labels=labels or {}, is_empty=is_empty)


def found(resources, *nodes, constraints=None, exclusive=False):
    rows = node_shortages(resources, constraints, nodes, exclusive=exclusive)
    return [(row.node, "in use" if row.occupied else row.amounts) for row in rows]


def test_each_type_that_is_short_is_named_with_how_much_the_nearest_first():
    nodes = [
        node("far", {"vcore": 8, "memory": 64}, {"vcore": 7, "memory": 60}),
        node("near", {"vcore": 8, "memory": 64}, {"vcore": 5}),
        node("free", {"vcore": 8, "memory": 64}),
    ]
    assert found({"vcore": 4, "memory": 8}, *nodes) == [("near", {"vcore": 1}), ("far", {"memory": 4, "vcore": 3})]


def test_nodes_that_could_never_hold_it_are_not_what_it_waits_for():
    small, other = node("small", {"vcore": 2}), node("other", {"vcore": 8}, {"vcore": 8}, labels={"gpu": "v100"})
    right = node("right", {"vcore": 8}, {"vcore": 8}, labels={"gpu": "a100"})
    assert found({"vcore": 4}, small, other, right, constraints="gpu=a100") == [("right", {"vcore": 4})]


def test_a_type_that_a_node_does_not_have_at_all_rules_it_out():
    assert found({"gpu": 1}, node("n1", {"vcore": 8})) == []


def test_a_job_that_wants_whole_nodes_waits_for_them_to_be_empty():
    nodes = [node("busy", {"vcore": 8}, {"vcore": 1}), node("idle", {"vcore": 8}, is_empty=True)]
    assert found({"vcore": 1}, *nodes, exclusive=True) == [("busy", "in use")]


def test_a_node_that_shrank_below_what_it_holds_lacks_that_too():
    assert found({"vcore": 2}, node("n1", {"vcore": 4}, {"vcore": 6})) == [("n1", {"vcore": 4})]


def test_nodes_that_the_job_does_not_name_are_not_what_it_waits_for():
    full = [node(name, {"vcore": 4}, {"vcore": 4}) for name in ("a", "b")]
    assert found({"vcore": 1}, *full, constraints="rankd/node in (b)") == [("b", {"vcore": 1})]
