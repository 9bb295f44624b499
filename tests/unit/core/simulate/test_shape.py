import pytest
from simulated import a_job, a_site

from rankd.core.model.node import Node
from rankd.core.simulate.shape import asked_of, shape_of

MIXED = [Node(name="a", capacity={"vcore": 16_000}), Node(name="b", capacity={"vcore": 64_000})]
GPUS = {"vcore": 32_000, "gpu:a100": 4, "gpu": 4, "memory": 1 << 40}
WITH_GPUS = [*MIXED, *(Node(name=f"g{place}", capacity=GPUS) for place in (1, 2))]


def shape(job, nodes):
    site = a_site(nodes)
    return shape_of(job, site.partitions[0], site.types)


def test_a_job_of_a_pool_is_one_part_whatever_it_had():
    for job in (a_job(0, 1, 100), a_job(0, 1, 100, nodes=4), a_job(0, 1, 100, whole_nodes=4, cores=25)):
        found = shape(job, 338)
        assert (found.nodes, found.resources, found.exclusive) == (1, {"vcore": 100_000}, False)


@pytest.mark.parametrize(("processors", "nodes", "cores"), [(64, 1, 64), (100, 2, 50), (129, 3, 43)])
def test_a_job_of_several_nodes_has_as_few_equal_parts_as_the_largest_nodes_allow(processors, nodes, cores):
    found = shape(a_job(0, 1, processors), MIXED)
    assert (found.nodes, found.resources) == (nodes, {"vcore": cores * 1000})


def test_a_job_asks_for_as_many_nodes_as_it_did_if_so_many_could_hold_it():
    found = shape(a_job(0, 1, 20, nodes=2), MIXED)
    assert (found.nodes, found.resources) == (2, {"vcore": 10_000})
    assert shape(a_job(0, 1, 60, nodes=2), MIXED).nodes == 1, "node a has no 30 cores"
    assert shape(a_job(0, 1, 60, nodes=3), MIXED).nodes == 1, "there are two nodes"


def test_gpus_are_divided_as_the_nodes_with_gpus_allow():
    found = shape(a_job(0, 1, 8, others=(("gpu:a100", 8),)), WITH_GPUS)
    assert (found.nodes, found.resources) == (2, {"vcore": 4000, "gpu:a100": 4, "gpu": 4})
    both = shape(a_job(0, 1, 64, others=(("gpu", 2),)), WITH_GPUS)
    assert (both.nodes, both.resources) == (2, {"vcore": 32_000, "gpu": 1}), "no node has 64 cores and 2 GPUs"
    never = shape(a_job(0, 1, 1, others=(("gpu:v100", 1),)), WITH_GPUS)
    assert never.resources["gpu:v100"] == 1


def test_a_job_with_whole_nodes_gets_those_with_its_gpus():
    found = shape(a_job(0, 1, 64, whole_nodes=2, cores=1, others=(("gpu", 6),)), WITH_GPUS)
    assert (found.exclusive, found.nodes, found.resources) == (True, 2, {"vcore": 1000, "gpu": 3})
    assert not shape(a_job(0, 1, 64, whole_nodes=5, cores=1), WITH_GPUS).exclusive


def test_only_types_that_nodes_offer_count():
    others = (("gpu:a100", 1), ("gpu:v100", 2), ("memory", 5))
    assert asked_of(others, {"vcore"}) == {}
    assert asked_of(others, {"vcore", "gpu:a100", "gpu", "memory"}) == dict(others)
    assert asked_of(others, {"vcore", "gpu"}) == {"gpu": 3}, "these nodes name no models"
