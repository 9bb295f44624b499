from builder import node

from rankd.core.fairshare.node_price import NodePrice, node_prices, unoffered, unpriced
from rankd.core.model.device import Device, DeviceState

GPUS = {"vcore": 8000, "memory": 2**30, "gpu": 4, "gpu:a100": 4}
NODES = [
    node("n1", capacity=GPUS),
    node("n2", capacity=GPUS),
    node("old", capacity={"vcore": 4000, "gpu": 2}),
    node("plain", capacity={"vcore": 4000, "fpga": 1, "ib": 0}),
]


def test_nodes_of_one_kind_have_one_price():
    assert node_prices(NODES, {"vcore": 1.0, "gpu": 16.0}) == [
        NodePrice("n[1-2]", 72.0),
        NodePrice("old", 36.0),
        NodePrice("plain", 4.0),
    ]


def test_a_price_of_what_no_node_has_is_named():
    failed = Device(model="v100", id="g0", index=0, state=DeviceState.FAILED)
    nodes = [*NODES, node("broken", capacity={"vcore": 1000}, devices=(failed,))]
    billing = {"vcore": 1.0, "memory": 0.1, "gpu": 1.0, "gpu:a100": 2.0, "gpu:v100": 3.0, "gpu:a10": 4.0, "gpus": 5.0}
    assert unoffered(nodes, billing) == ["gpu:a10", "gpus"]
    assert unoffered([], billing) == [], "a site that begins"


def test_what_nodes_offer_without_a_price_is_named():
    assert unpriced(NODES, {"vcore": 1.0, "gpu": 16.0}) == {"fpga": "plain"}
    assert unpriced(NODES, {"vcore": 1.0}) == {"fpga": "plain", "gpu": "old", "gpu:a100": "n[1-2]"}
    assert unpriced(NODES, {"vcore": 1.0, "gpu:a100": 16.0}) == {"fpga": "plain", "gpu": "old"}
    assert unpriced([], {}) == {}
