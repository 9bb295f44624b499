"""Why a job waits: a code that programs compare, and a fact with every number that somebody needs."""

from builder import node, shape, table

from rankd.core.placement.problem import NO_NODE_FITS, RESERVED, RESOURCES
from rankd.core.placement.reason import lacking, not_able, reserved

NODES = table(node("n1"), node("n2", vcore=2000))


def test_no_node_fits_says_what_no_node_has_enough_of():
    asked = shape(resources={"vcore": 8000, "gpu": 1})
    code, fact = not_able(asked, 0, NODES)
    assert code == NO_NODE_FITS
    assert "0 of 2 nodes could hold it" in fact
    assert fact.endswith(". No node has enough gpu (at most 0), vcore (at most 4)")


def test_too_little_room_says_how_many_nodes_have_room_and_how_many_could():
    asked = shape(vcore=2000, nodes=2)
    code, fact = lacking(asked, 1, NODES.demand(asked), [1000, 1], NODES, "none")
    assert code == RESOURCES
    assert fact.startswith("it needs 2 nodes with vcore 2 free. 2 nodes could hold it, but only 1 has room now. ")
    assert "No node has enough vcore free" in fact
    assert fact.endswith("later jobs that fit go first")
    assert "later jobs" not in lacking(asked, 1, NODES.demand(asked), [1000, 1], NODES, "easy")[1]


def test_the_same_shape_gets_the_same_text_and_another_shape_its_own():
    asked, other = shape(vcore=8000), shape(vcore=9000)
    assert not_able(asked, 0, NODES)[1] is not_able(asked, 0, NODES)[1]
    assert not_able(asked, 0, NODES)[1] != not_able(other, 0, NODES)[1]


def test_a_reservation_names_its_job_its_node_and_its_instant():
    code, fact = reserved("n1", 17, 1_700_000_000.0)
    assert code == RESERVED
    assert "job 17" in fact
    assert "n1" in fact
    assert "2023-11-14" in fact
