import msgspec
import pytest
from simulated import a_site_of

from rankd.core.errors import Refused
from rankd.core.model.node import Node
from rankd.core.simulate.route import Router, check_routes, check_used
from rankd.core.simulate.trace import TraceJob

ROOTS = {
    "cpu": {"name": "root", "queues": [{"name": "default"}, {"name": "short"}]},
    "gpu": {"name": "root", "queues": [{"name": "default"}, {"name": "q7"}]},
}
NODES = {
    "cpu": [Node(name=f"n{place}", capacity={"vcore": 8000}) for place in (1, 2)],
    "gpu": [Node(name="g1", capacity={"vcore": 4000, "gpu:a100": 2, "gpu": 2})],
}
SITE = a_site_of(NODES, roots=ROOTS)


def router(**routes):
    return Router(msgspec.structs.replace(SITE, routes=routes))


@pytest.mark.parametrize(
    ("queue", "partition", "goal"),
    [
        ("", "", (0, "root.default")),
        ("q1", "p1", (0, "root.default")),
        ("short", "", (0, "root.short")),
        ("q7", "p1", (1, "root.q7")),  # the first partition with such a queue
        ("q7", "CPU", (0, "root.default")),  # the partition is named
        ("root.q7", "gpu", (1, "root.q7")),
        ("gpu", "gpu", (1, "root.default")),  # Slurm's partitions
    ],
)
def test_names_of_the_site_are_found(queue, partition, goal):
    assert router().goal(queue, partition)[:2] == goal


@pytest.mark.parametrize(
    ("routes", "goal"),
    [
        ({"p1": "gpu"}, (1, "root.default")),
        ({"q1": "gpu"}, (1, "root.default")),
        ({"q1": "cpu", "p1": "gpu"}, (0, "root.default")),  # the queue says more
        ({"q1": "root.short"}, (0, "root.short")),
        ({"q1": "root.q7"}, (1, "root.q7")),
        ({"q1": "root.short", "p1": "cpu"}, (0, "root.short")),
        ({"q2": "gpu"}, (0, "root.default")),
    ],
)
def test_a_route_comes_before_names(routes, goal):
    assert router(**routes).goal("q1", "p1")[:2] == goal


def test_names_that_are_nothing_here_are_remembered():
    own = router(q3="root.short")
    for queue, partition in (("q1", "p1"), ("q2", ""), ("", ""), ("q3", "p3"), ("short", "p4"), ("q5", "gpu")):
        own.goal(queue, partition)
    assert (own.unknown, own.default, own.n_partitions) == (["p1", "q2"], "cpu", 2)


def job(partition, *others):
    return TraceJob("1", 0.0, 1.0, 1.0, 1.0, 1.0, "u", "g", "", partition, others=others)


@pytest.mark.parametrize(
    ("of", "processors", "is_too_large"),
    [
        (job("cpu"), 16, False),
        (job("cpu"), 17, True),
        (job("gpu"), 5, True),
        (job("gpu", ("gpu", 2)), 4, False),
        (job("gpu", ("gpu:a100", 3)), 1, True),
        (job("gpu", ("gpu:v100", 1)), 1, True),
        (job("cpu", ("gpu", 1)), 1, True),
        (job("cpu", ("memory", 1)), 1, False),  # nobody knows how much the nodes have
    ],
)
def test_a_job_is_too_large_for_its_own_partition(of, processors, is_too_large):
    assert router().is_too_large(of, processors) is is_too_large


@pytest.mark.parametrize(
    ("routes", "what"),
    [
        ({"q1": "big"}, "--map q1=big: there is no partition 'big'; there are cpu, gpu"),
        ({"q1": "root.big"}, "there is no leaf queue 'root.big'; there are root.default, root.q7, root.short"),
    ],
)
def test_a_route_to_nowhere_is_refused(routes, what):
    with pytest.raises(Refused) as caught:
        check_routes(routes, SITE.partitions)
    assert what in caught.value.message


def test_a_route_for_no_job_is_refused():
    check_used({"q1": "gpu"}, {"Q1", "q2", ""})
    with pytest.raises(Refused, match="no job of the trace has the queue or partition 'q9'; there are q1, q2"):
        check_used({"q9": "gpu"}, {"q1", "q2", ""})
    with pytest.raises(Refused, match="there are q0, q1, q2, q3, q4, q5, q6, q7 …"):
        check_used({"x": "gpu"}, {f"q{place}" for place in range(9)})
