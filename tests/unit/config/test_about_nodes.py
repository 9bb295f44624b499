"""What a check and a reload say about a configuration and its nodes."""

import pytest

from rankd.config.about_nodes import about_nodes, costs_of, known_nodes, of_prices, unchecked
from rankd.config.configuration import read_configuration
from rankd.core.model.node import Node

NODES = [Node(name="n1", capacity={"vcore": 8000, "gpu": 2})]
QUEUES = """
partitions:
  - name: default
    queues: [{name: root, queues: [{name: default, submitacl: "*", resources: {max: {vcore: 8, gpus: 2}}}]}]
"""
BILLING = """
[priority.fairshare]
billing = { vcore = 1.0, gpu = 16.0, "gpu:a10" = 2.0 }
"""


@pytest.fixture
def configuration():
    return read_configuration("etc", {"queues.yaml": QUEUES, "rankd.toml": BILLING})


def test_names_that_no_node_has_are_reported(configuration):
    messages = [problem.message for problem in about_nodes(configuration, NODES)]
    assert ["no node has gpus" in one for one in messages] == [True, False]
    assert "no node has gpu:a10, so its price has no effect" in messages[1]
    assert unchecked(configuration, NODES) == ""


def test_without_nodes_the_names_that_were_not_checked_are_listed(configuration):
    assert about_nodes(configuration, []) == []
    assert unchecked(configuration, []).startswith("Not checked: whether nodes have gpu:a10, gpus. No nodes")
    assert unchecked(read_configuration("etc", {}), []) == ""


def test_nodes_that_the_configuration_lists_count_as_nodes():
    known = '[nodes]\nknown = { "n[1-2]" = { vcore = 8, gpus = 1 } }\n'
    configuration = read_configuration("etc", {"queues.yaml": QUEUES, "rankd.toml": known})
    nodes = known_nodes(configuration)
    assert [(node.name, node.capacity) for node in nodes] == [
        (name, {"vcore": 8000, "gpus": 1}) for name in ("n1", "n2")
    ]
    [free] = about_nodes(configuration, nodes)
    assert "gpus has no price, but n[1-2] offer it" in free.message


@pytest.mark.parametrize(
    ("amounts", "number"), [("", 0), ("vcore = 8, gpu = 4", 0), ('vcore = 8, "gpu:a100" = 4', 1), ("vcore = 8", 1)]
)
def test_entries_that_leave_open_what_a_node_has_are_no_nodes(amounts, number):
    text = f"[nodes]\nknown = {{ n1 = {{ {amounts} }} }}\n"
    assert len(known_nodes(read_configuration("etc", {"rankd.toml": text}))) == number


def test_prices_of_whole_nodes_are_shown_beside_a_warning_that_does_not_have_them(configuration):
    assert costs_of(configuration, NODES) == "A second of a whole node costs: n1 40"
    assert costs_of(configuration, []) == ""
    warnings = of_prices(NODES, {"vcore": 1.0, "gpu": 16.0, "gpus": 1.0})
    assert ["no node has gpus" in warning.message for warning in warnings] == [True]
    warnings = of_prices(NODES, {"vcore": 1.0})
    assert ["n1 8" in warning.message for warning in warnings] == [True]
