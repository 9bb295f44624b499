"""Shapes: what jobs ask nodes for."""

import subprocess
import sys

from builder import shape

from rankd.core.placement.request import described


def test_equal_shapes_have_one_key_and_every_field_counts():
    base = shape(vcore=1000, nodes=2)
    same = shape(vcore=1000, nodes=2)
    others = [
        shape(vcore=1001, nodes=2), shape(vcore=1000, nodes=3), shape(vcore=1000, nodes=2, min_nodes=1),
        shape(vcore=1000, nodes=2, partition="gpu"), shape(vcore=1000, nodes=2, constraints="a=b"),
        shape(vcore=1000, nodes=2, exclusive=True), shape(nodes=2, resources={"vcore": 1000, "gpu": 0}),
    ]  # fmt: skip
    assert base.key() == same.key()
    assert len({base.key(), *(other.key() for other in others)}) == 1 + len(others)


def test_a_key_does_not_depend_on_the_order_of_types_nor_on_the_process():
    first = shape(resources={"vcore": 1000, "gpu": 1})
    assert first.key() == shape(resources={"gpu": 1, "vcore": 1000}).key()
    code = (
        "from rankd.core.placement.request import Shape;"
        "print(Shape(partition='default', resources={'vcore': 1000, 'gpu': 1}).key())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == first.key()
    assert 0 <= first.key() < 2**63


def test_a_shape_is_described_in_the_units_of_users():
    asked = shape(resources={"vcore": 1500, "memory": 2**30}, constraints="gpu=a100", exclusive=True)
    assert described(asked) == "memory 1G, vcore 1.5, gpu=a100, exclusive"
    assert described(shape(resources={})) == "nothing in particular"
