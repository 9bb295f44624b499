"""Jobs that no node that is there could ever hold, where those are refused."""

import pytest
from builder import admission_tables
from msgspec.structs import replace

from rankd.core.admission.admit import admit
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState
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


@pytest.mark.parametrize("asked", [{"gpu": 2}, {"gpu:a100": 2}])
def test_a_device_that_has_failed_counts_since_it_may_be_offered_again(asked):
    listed = [
        Device(model="a100", id=f"g{at}", index=at, state=state)
        for at, state in enumerate((DeviceState.OK, DeviceState.FAILED))
    ]
    there = (Node(name="a", capacity={"vcore": 4000, "gpu": 1, "gpu:a100": 1}, devices=tuple(listed)),)
    assert admitted(there=there, resources=asked).partition == "default"
    with pytest.raises(Refused, match="0 of the 1 nodes"):
        admitted(there=there, resources={kind: amount + 1 for kind, amount in asked.items()})


def whole(most, **fields):
    """An exclusive job in a queue with this maximum, where jobs that could never start are refused."""
    leaf = QueueEntry(partition="default", path="root.default", is_leaf=True, maximum=most)
    tables = admission_tables(nodes=NODES)
    tables = replace(tables, queues={**tables.queues, ("default", "root.default"): leaf})
    request = JobRequest(command=["true"], exclusive=True, **fields)
    return [admit(request, ALICE, replace(tables, nodes=nodes)) for nodes in (None, NODES)]


def test_whole_nodes_above_a_limit_are_refused_where_jobs_that_could_never_start_are():
    assert len(whole({"vcore": 4000})) == 2, "the smallest node is enough"
    for asked in ({"resources": {"vcore": 5}}, {"nodes": 2}):
        with pytest.raises(
            Refused, match=r"is exclusive and would hold vcore (8|12) at least, but the limit of"
        ) as refused:
            whole({"vcore": 7000} if "nodes" not in asked else {"vcore": 11_000}, **asked)
        assert refused.value.code == "queue_quota"
