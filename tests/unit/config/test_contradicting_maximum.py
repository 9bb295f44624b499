"""Amounts of GPUs that another amount makes useless."""

import pytest

from rankd.config.contradicting_maximum import contradicting_maxima
from rankd.config.queues import read_queues
from rankd.core.model.device import Device
from rankd.core.model.node import Node

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: a
            resources: {{max: {most}}}
            limits: [{{users: ["*"], maxresources: {limit}}}]
            queues:
              - name: b
                resources: {{max: {below}}}
"""
MODELS = ("a100", "v100")
NODES = [Node(name="n1", capacity={}, devices=tuple(Device(model=m, id=m, index=at) for at, m in enumerate(MODELS)))]


def found(most="{vcore: 1}", limit="{vcore: 1}", below="{vcore: 1}", nodes=()):
    partitions = read_queues(QUEUES.format(most=most, limit=limit, below=below)).partitions
    return {problem.path: problem.message for problem in contradicting_maxima(partitions, nodes)}


def test_a_model_above_its_type_is_named():
    told = found(most='{gpu: 4, "gpu:a100": 8}')
    assert told == {
        "root.a.resources.max": "gpu:a100 8 is above gpu 4, which counts all models, so it limits nothing;"
        " write at most 4, or remove it"
    }
    assert "above gpu 4 of a queue above it" in found("{gpu: 4}", '{"gpu:a100": 8}')["root.a.limits.maxresources"]
    assert "above gpu 4" in found("{gpu: 4}", below='{"gpu:a100": 8}')["root.a.b.resources.max"]


def test_a_type_above_the_sum_of_all_models_is_named():
    most = '{gpu: 10, "gpu:a100": 2, "gpu:v100": 2}'
    assert "gpu 10 is above the sum of its models (4)" in found(most, nodes=NODES)["root.a.resources.max"]
    assert found(most) == {}, "other models may come"


@pytest.mark.parametrize(
    "most",
    [
        '{gpu: 4, "gpu:a100": 4}',
        '{gpu: 10, "gpu:a100": 2}',
        '{"gpu:a100": 8}',
        '{gpu: 3, "gpu:a100": 2, "gpu:v100": 2}',
    ],
)
def test_amounts_that_all_count_are_not(most):
    assert found(most, nodes=NODES) == {}
