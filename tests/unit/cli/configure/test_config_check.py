"""What ``rankd config check`` says about prices."""

from rankd.cli.configure.config_check import _of_prices
from rankd.core.model.node import Node

NODES = [Node(name="n1", capacity={"vcore": 8000, "gpu": 2})]


def test_prices_of_whole_nodes_are_shown_beside_a_warning_that_does_not_have_them():
    warnings, costs = _of_prices(NODES, {"vcore": 1.0, "gpu": 16.0, "gpus": 1.0})
    assert ["no node has gpus" in warning.message for warning in warnings] == [True]
    assert costs == "A second of a whole node costs: n1 40"
    warnings, costs = _of_prices(NODES, {"vcore": 1.0})
    assert ["n1 8" in warning.message for warning in warnings] == [True]
    assert costs == ""
