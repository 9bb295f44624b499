"""Amounts in queues.yaml that no node offers."""

from rankd.config.queues import read_queues
from rankd.config.unoffered_maximum import unoffered_maxima
from rankd.core.model.device import Device, DeviceState
from rankd.core.model.node import Node

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        limits:
          - limit: each user
            users: ["*"]
            maxresources: {gpus: 2, gpu: 4}
        queues:
          - name: a
            resources:
              max: {vcore: 8, "gpu:a100": 4, "gpu:v100": 1}
              guaranteed: {fpga: 1}
          - name: b
            resources:
              max: {gpus: 8}
"""
FAILED = Device(model="v100", id="g0", index=0, state=DeviceState.FAILED)
NODES = [Node(name="n1", capacity={"vcore": 8000, "gpu": 4, "gpu:a100": 4}, devices=(FAILED,))]


def test_a_maximum_or_limit_of_a_type_that_no_node_has_is_named_once_with_its_place():
    partitions = read_queues(QUEUES).partitions
    found = {problem.path: problem.message for problem in unoffered_maxima(partitions, NODES)}
    assert found == {
        "root.limits.maxresources": "no node has gpus, so this amount limits nothing (also in 1 other places);"
        " write gpu, or remove it",
        "root.a.resources.guaranteed": "no node has fpga, so this amount limits nothing;"
        " correct the name, or remove it",
    }


def test_without_nodes_nothing_is_known():
    assert unoffered_maxima(read_queues(QUEUES).partitions, []) == []


def test_a_model_that_no_node_has_is_not_taken_for_another_one():
    text = QUEUES.replace('"gpu:a100": 4', '"gpu:a10": 4')
    told = [problem.message for problem in unoffered_maxima(read_queues(text).partitions, NODES)]
    assert any(
        message
        == "no node has gpu:a10, so this amount limits nothing; correct the model (nodes have gpu:a100, gpu:v100), or"
        " write gpu to count all models, or remove it"
        for message in told
    )
