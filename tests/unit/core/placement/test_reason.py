"""Why a job waits: a code that programs compare, and a fact with every number that somebody needs."""

import msgspec
import pytest
from builder import node, shape, table

from rankd.core.model.device import Device, DeviceState, offered
from rankd.core.model.node import NodeState
from rankd.core.model.reason_code import NO_NODE_FITS, RESERVED, RESOURCES
from rankd.core.placement.reason import lacking, not_able, reserved

NODES = table(node("n1"), node("n2", vcore=2000))


def test_no_node_fits_says_what_no_node_has_enough_of():
    asked = shape(resources={"vcore": 8000, "gpu": 1})
    code, fact = not_able(asked, 0, NODES)
    assert code == NO_NODE_FITS
    assert "0 of 2 nodes could hold it" in fact
    assert fact.endswith(". No node has enough gpu (at most 0), vcore (at most 4)")


GPUS = tuple(Device(model="a100", id=f"g{at}", index=at) for at in range(2))
BROKEN = (GPUS[0], msgspec.structs.replace(GPUS[1], state=DeviceState.FAILED))


def gpu_node(name, devices=GPUS, **fields):
    return node(name, capacity=offered({"vcore": 4000}, devices), devices=devices, **fields)


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        (gpu_node("n2", state=NodeState.DOWN), "n2 (down)"),
        (gpu_node("n2", state=NodeState.DRAINING), "n2 (draining)"),
        (gpu_node("n2", BROKEN), "n2 (gpu 1 failed)"),
    ],
)
def test_a_node_that_could_hold_it_later_is_named_with_its_obstacle(other, obstacle):
    asked = shape(resources={"vcore": 1000, "gpu": 2, "gpu:a100": 2})
    _, fact = not_able(asked, 0, table(node("n1"), other))
    assert fact.endswith(f"That may change: {obstacle} could hold it otherwise")
    larger = shape(resources={"vcore": 1000, "gpu": 3, "gpu:a100": 3})
    assert "may change" not in not_able(larger, 0, table(node("n1"), other))[1]


def test_the_part_that_too_few_nodes_can_give_is_named():
    nodes = table(gpu_node("n1"), node("n2", vcore=64000), node("n3", labels={"disk": "ssd"}))
    asked = {"vcore": 1000, "gpu": 2, "gpu:a100": 2}
    assert "Only 1 node that is up can give gpu:a100 2" in not_able(shape(nodes=2, resources=asked), 1, nodes)[1]
    together = not_able(shape(resources=asked | {"vcore": 8000}), 0, nodes)[1]
    assert "(gpu:a100 2: 1, vcore 8: 1), but not all of them together" in together
    on_ssd = shape(nodes=2, constraints="disk=ssd")
    assert "Only 1 node that is up can give disk=ssd" in not_able(on_ssd, 1, nodes)[1]


def test_nodes_that_a_job_names_are_named_without_their_label():
    nodes = table(node("n1"), msgspec.structs.replace(node("n2"), state=NodeState.DRAINING))
    fact = not_able(shape(constraints="rankd/node in (n2)"), 0, nodes)[1]
    assert "1 node with vcore 1, on n2. " in fact
    assert "No node named n2 is up. That may change: n2 (draining)" in fact
    both = not_able(shape(nodes=2, constraints="rankd/node in (n1,n2)"), 1, nodes)[1]
    assert "Only 1 node named n1 or n2 is up" in both
    labelled = not_able(shape(constraints="disk=ssd,rankd/node in (n2)"), 0, nodes)[1]
    assert "No node with disk=ssd and named n2 is up" in labelled


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


def test_devices_that_are_kept_from_jobs_are_not_told_as_busy():
    states = (DeviceState.DRAINED, DeviceState.TAKEN)
    out = tuple(msgspec.structs.replace(gpu, state=state) for gpu, state in zip(GPUS, states, strict=True))
    nodes = table(gpu_node("n1", out), gpu_node("n2"))
    asked = shape(resources={"vcore": 1000, "gpu": 2, "gpu:a100": 2})
    fact = lacking(asked, 0, nodes.demand(asked), [9000] * 6, nodes, "easy").fact
    assert fact.endswith("none has room now. Out of use: n1: gpu 0 drained, gpu 1 taken")
    without = shape(vcore=2000)
    assert "Out of use" not in lacking(without, 0, nodes.demand(without), [0] * 6, nodes, "easy").fact
