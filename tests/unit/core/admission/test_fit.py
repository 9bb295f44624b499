"""Jobs that no node that is there could ever hold, where those are refused."""

import pytest
from builder import admission_tables

from rankd.core.admission.admit import admit
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.model.node import Node

ALICE = Submitter("alice", privileged=False)
NODES = (
    Node(name="a", capacity={"vcore": 4000}),
    Node(name="b", capacity={"vcore": 8000, "gpu": 2}, labels={"gpu": "a100"}),
    Node(name="c", partition="other", capacity={"vcore": 64000}),
)


def admitted(there=NODES, **fields):
    return admit(JobRequest(**{"command": ["true"], **fields}), ALICE, admission_tables(nodes=there))


@pytest.mark.parametrize(
    ("asked", "able"),
    [
        ({"resources": {"vcore": 9}}, 0),
        ({"resources": {"vcore": 8}, "nodes": 2}, 1),
        ({"resources": {"gpu": 1}, "constraints": "gpu!=a100"}, 0),
        ({"constraints": "rankd/node in (a,c)", "nodes": 2}, 1),
        ({"resources": {"licence": 1}}, 0),
        ({"nodes": 3}, 2),
    ],
)
def test_a_job_is_refused_that_too_few_of_its_partitions_nodes_could_hold(asked, able):
    with pytest.raises(Refused) as refused:
        admitted(**asked)
    assert refused.value.code == "no_node_fits"
    assert f"but {able} of the 2 nodes in partition 'default' could ever hold that" in refused.value.message
    assert admitted(there=None, **asked).nodes == asked.get("nodes", 1)  # where such jobs wait


@pytest.mark.parametrize(
    "asked",
    [
        {"resources": {"vcore": 8}},
        {"nodes": 2},
        {"nodes": 9, "min_nodes": 2},
        {"resources": {"gpu": 2}, "constraints": "gpu in (a100)"},
        {"exclusive": True},
    ],
)
def test_a_job_is_taken_that_its_least_nodes_could_hold(asked):
    assert admitted(**asked).partition == "default"


def test_without_nodes_nothing_is_taken():
    with pytest.raises(Refused, match="0 of the 0"):
        admitted(there=())
