"""Warnings about jobs that no known node could run."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rankd.core.admission import offered as offered_module
from rankd.core.admission.offered import MOST_KINDS, Offered
from rankd.core.model.device import Device, DeviceState
from rankd.core.placement.request import Shape


@pytest.fixture
def offered():
    found = Offered()
    for number in (1, 2):
        found.learn(f"n{number}", "default", {"vcore": 4000 * number, "memory": 2**30})
    found.learn("m1", "mixed", {"vcore": 4000, "gpu": 2}, {"disk": "ssd"})
    found.learn("m2", "mixed", {"vcore": 8000}, {"disk": "hdd"})
    found.learn("g1", "gpu", {"vcore": 8000, "gpu": 2, "gpu:a100": 2})
    return found


def shape(partition="default", constraints=None, nodes=1, **resources):
    return Shape(
        partition=partition, nodes=nodes, min_nodes=nodes, resources=resources or {"vcore": 1000},
        constraints=constraints,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (shape(vcore=9000), "asks for vcore 9 on a node, and no node in partition 'default' offers more than 8;"),
        (shape(memory=2**31), "no node in partition 'default' offers more than 1G;"),
        (shape(gpu=1), "no node in partition 'default' offers more than 0;"),
        (shape("gpu", vcore=1000, **{"gpu:a100": 3}), "no node in partition 'gpu' offers more than 2;"),
        (shape(constraints="rankd/node in (nowhere)"), "there is no node 'nowhere' in partition 'default';"),
        (shape(constraints="a=b,rankd/node in (n1,g1)", nodes=2), "there is no node 'g1' in partition 'default';"),
        (shape(nodes=3), "partition 'default' has 2 nodes, and the job needs 3;"),
        (
            shape(constraints="rankd/node notin (n1,n2,m1)"),
            "partition 'default' has 2 nodes, the job excludes 2 of them and needs 1; the job waits until",
        ),
        (shape(constraints="rankd/node notin (n1)", nodes=2), "has 2 nodes, the job excludes 1 of them and needs 2;"),
        (shape(constraints="rankd/node in (n1)", vcore=8000), "asks for vcore 8 on node 'n1', which offers 4;"),
        (shape(nodes=2, constraints="rankd/node in (n1,n2)", vcore=8000), "asks for vcore 8 on node 'n1', which"),
        (shape("mixed", vcore=8000, gpu=1), "1 node with gpu 1, vcore 8, and no nodes in partition 'mixed' have all"),
        (shape("mixed", vcore=8000, constraints="disk=ssd"), "no nodes in partition 'mixed' have all of that;"),
        (shape("mixed", nodes=2, constraints="disk=ssd"), "and 1 node in partition 'mixed' has all of that;"),
        (shape("mixed", constraints="disk=ssd,rankd/node in (m2)"), "no nodes in partition 'mixed' have all of that;"),
        (shape("mixed", constraints="rankd/node in (m1),rankd/node in (m2)"), "no nodes in partition 'mixed' have"),
    ],
)
def test_a_job_that_no_node_could_run_is_doubted(offered, asked, said):
    assert said in offered.doubt(asked)


@pytest.mark.parametrize(
    "asked",
    [
        shape(vcore=8000, memory=2**30), shape(nodes=2), shape("gpu", gpu=2), shape(constraints="rankd/node in (n1)"),
        shape(constraints="rankd/node in (n1,nowhere)"), shape(constraints="rankd/node notin (n1)"),
        shape("empty", vcore=9000), shape("mixed", vcore=1000, gpu=1, constraints="disk=ssd"),
        shape("mixed", constraints="disk!=ssd,rankd/node in (m1,m2)"), shape("mixed", constraints="rankd/node!=m1"),
    ],
)  # fmt: skip
def test_a_job_that_might_run_is_not(offered, asked):
    assert offered.doubt(asked) is None


def test_what_a_node_offers_now_counts_and_a_node_that_moves_counts_once(offered):
    offered.learn("n2", "default", {"vcore": 6000})
    assert "offers more than 6;" in offered.doubt(shape(vcore=8000))
    assert "offers more than 0;" in offered.doubt(shape(vcore=1000, gpu=1))
    offered.learn("n2", "gpu", {"vcore": 1000})
    assert "offers more than 4;" in offered.doubt(shape(vcore=6000))
    assert "has 1 node, and the job needs 2" in offered.doubt(shape(nodes=2))
    assert offered.doubt(shape("gpu", nodes=2)) is None
    offered.learn("n1", "gpu", {"vcore": 1000})
    assert offered.doubt(shape(vcore=6000)) is None  # the partition has no node left


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(["p", "q"]),
            st.dictionaries(st.sampled_from(["vcore", "gpu"]), st.integers(0, 3)),
        )
    )
)  # fmt: skip
def test_only_the_last_registration_of_each_node_counts(registrations):
    lived = Offered()
    for registration in registrations:
        lived.learn(*registration)
    begun = Offered()
    for node, *offer in {registration[0]: registration for registration in registrations}.values():
        begun.learn(node, *offer)
    for partition, kind, amount in itertools.product("pq", ["vcore", "gpu"], range(1, 5)):
        asked = shape(partition, **{kind: amount})
        assert lived.doubt(asked) == begun.doubt(asked)
    assert lived.size() == begun.size()


def test_a_partition_of_too_many_kinds_of_nodes_is_not_looked_through(offered, monkeypatch):
    monkeypatch.setattr(offered_module, "MOST_LOOKED_AT", 1)
    assert offered.doubt(shape("mixed", vcore=8000, gpu=1)) is None
    offered.learn("m2", "mixed", {"vcore": 4000, "gpu": 2}, {"disk": "ssd"})
    assert "have all" in offered.doubt(shape("mixed", gpu=1, constraints="disk=hdd"))


def test_a_node_that_lies_about_its_resources_fills_no_memory(offered):
    before = offered.size()
    for number in range(30):
        offered.learn("n1", f"p{number}", {f"type{number}-{kind}": 1 for kind in range(2 * MOST_KINDS)})
    assert offered.size() <= before + MOST_KINDS


@pytest.mark.parametrize(
    ("nodes", "limit", "said"),
    [
        (1, {"gpu": 1}, "an exclusive job holds whole nodes, here gpu 2 at least, and the limit of alice is 1;"),
        (2, {"gpu": 5}, "here gpu 6 at least, and the limit of alice is 5;"),
        (2, {"gpu": 6}, None),
        (1, {"gpu": 2, "memory": 1}, None),
        (1, {"vcore": 7000}, "here vcore 8 at least, and the limit of alice is 7;"),
    ],
)
def test_whole_nodes_may_be_more_than_a_limit_ever_allows(nodes, limit, said):
    found = Offered()
    found.learn("g1", "gpu", {"vcore": 8000, "gpu": 2})
    found.learn("g2", "gpu", {"vcore": 8000, "gpu": 4})
    asked = replace(shape("gpu", nodes=nodes, vcore=1000, gpu=1), exclusive=True)
    doubt = found.doubt(asked, [("alice", limit)])
    assert (said is None and doubt is None) or said in doubt
    assert found.doubt(replace(asked, exclusive=False), [("alice", limit)]) is None


A100S = [Device(model="a100", id=f"g{number}", index=number) for number in range(2)]


def out_of_use(*states):
    return [replace(device, state=state) for device, state in zip(A100S, states, strict=False)]


def test_devices_that_are_out_of_use_are_named_and_no_longer_counted(offered):
    asked = shape("gpu", gpu=2)
    assert offered.doubt(asked) is None
    offered.note("g1", out_of_use(DeviceState.DRAINED, DeviceState.FAILED))
    told = "no nodes in partition 'gpu' can give that at present (g1: gpu 0 drained, gpu 1 failed); the job waits"
    assert told in offered.doubt(asked)
    assert offered.doubt(shape("gpu", vcore=1000)) is None
    offered.learn("g2", "gpu", {"vcore": 8000, "gpu": 2, "gpu:a100": 2}, devices=A100S)
    assert offered.doubt(asked) is None
    assert "1 node in partition 'gpu' can give that" in offered.doubt(shape("gpu", nodes=2, gpu=2))
    offered.note("g1", out_of_use(DeviceState.OK, DeviceState.TAKEN))  # a process of somebody ends
    assert offered.doubt(shape("gpu", nodes=2, gpu=2)) is None
    offered.note("unknown", A100S)


def test_only_devices_of_the_asked_model_are_named():
    found = Offered()
    states = [("a100", DeviceState.DRAINED), ("v100", DeviceState.FAILED), ("a100", DeviceState.OK)]
    devices = [Device(model=one, id=str(n), index=n, state=state) for n, (one, state) in enumerate(states)]
    found.learn("g1", "gpu", {"gpu": 3, "gpu:a100": 2, "gpu:v100": 1}, devices=devices)
    assert "at present (g1: gpu 1 failed)" in found.doubt(shape("gpu", **{"gpu": 1, "gpu:v100": 1}))
    assert "at present (g1: gpu 0 drained, gpu 1 failed)" in found.doubt(shape("gpu", gpu=2))


def test_more_devices_than_a_node_has_may_be_asked_of_several(offered):
    assert "-N" not in offered.doubt(shape("gpu", gpu=6))  # the partition has one node
    for number in (2, 3, 4, 5, 6):
        offered.learn(f"g{number}", "gpu", {"vcore": 8000, "gpu": 2, "gpu:a100": 2})
    assert "offers more than 2 (-N 3 --gpus 6 spreads them over nodes);" in offered.doubt(shape("gpu", gpu=6))
    of_two = offered.doubt(shape("gpu", nodes=2, vcore=1000, **{"gpu:a100": 4}))
    assert "(-N 4 --gpus a100:8 spreads them over nodes)" in of_two
    assert "-N" not in offered.doubt(shape("gpu", nodes=5, gpu=4))  # 10 nodes with 2 each: there are 6
    assert "-N" not in offered.doubt(shape(gpu=1))


def test_fewer_named_nodes_than_the_job_asks_for_are_told(offered):
    found = offered.doubt(shape(constraints="rankd/node in (n1)", nodes=3))
    assert found.startswith("the job names 1 node (-w), but asks for 3: rankd adds no others to named nodes; name 3")
