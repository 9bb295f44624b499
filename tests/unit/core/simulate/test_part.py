import math

import pytest
from simulated import a_job, a_site, a_site_of, lived_through

from rankd.core.model.device import Device
from rankd.core.model.node import Node
from rankd.core.model.setting import FairshareSettings, PrioritySettings
from rankd.core.simulate.simulator import Simulation

CPU = [Node(name="n1", capacity={"vcore": 4000})]


def with_gpus(name, *models):
    devices = tuple(
        Device(model=model, id=f"{name}-{place}", index=place, group=place // 2) for place, model in enumerate(models)
    )
    amounts = {f"gpu:{model}": models.count(model) for model in models}
    return Node(name=name, capacity={"vcore": 8000, **amounts, "gpu": len(models)}, devices=devices)


def test_partitions_have_nodes_queues_and_reservations_of_their_own():
    site = a_site_of({"cpu": 4, "gpu": 2})
    jobs = [
        a_job(0, 10, 4, partition="cpu"),
        a_job(1, 10, 2, partition="gpu"),
        a_job(2, 10, 4, partition="cpu"),
        a_job(3, 10, 2, partition="gpu"),
        a_job(4, 1, 1, partition="gpu"),
    ]
    assert lived_through(site, jobs) == [0.0, 1.0, 10.0, 11.0, 21.0]


def test_each_partition_alone_gives_the_same():
    jobs = [a_job(at, 3 + at % 5, 1 + at % 3, 9, partition="ab"[at % 2], number=str(at)) for at in range(60)]
    both = lived_through(a_site_of({"a": 4, "b": 3}), jobs)
    for name, cores in (("a", 4), ("b", 3)):
        own = [(job, at) for job, at in zip(jobs, both, strict=True) if job.partition == name]
        assert lived_through(a_site(cores), [job for job, _ in own]) == [at for _, at in own]


def test_use_in_one_partition_counts_in_the_others():
    """Fair share is one tree: what a user ran on ``cpu`` puts them behind on ``gpu``."""
    priority = PrioritySettings(weights={"fairshare": 1000.0}, fairshare=FairshareSettings(half_life_s=1e6))
    site = a_site_of({"cpu": 2, "gpu": 1}, priority=priority)
    jobs = [
        a_job(0, 10, 2, user="greedy", partition="cpu"),
        a_job(1, 10, 1, user="other", group="g2", partition="gpu"),
        a_job(2, 10, 1, user="greedy", partition="gpu"),
        a_job(3, 10, 1, user="new", partition="gpu"),
    ]
    assert lived_through(site, jobs) == [0.0, 1.0, 21.0, 11.0]


def test_the_size_of_a_job_is_a_part_of_its_partition():
    simulation = Simulation(a_site_of({"cpu": 8, "gpu": [*CPU, Node(name="n2", capacity={"vcore": 4000})]}), [])
    assert [(part.n_nodes, part.n_cores) for part in simulation.parts] == [(8.0, 8.0), (2.0, 8.0)]


def test_a_partition_without_nodes_starts_nothing():
    starts = lived_through(a_site_of({"cpu": CPU, "gpu": []}), [a_job(0, 5, 1, partition="gpu"), a_job(1, 5, 1)])
    assert math.isnan(starts[0])
    assert starts[1] == 1.0


def test_two_jobs_share_the_gpus_of_a_node_and_a_third_waits():
    site = a_site([with_gpus("g1", "a100", "a100")])
    jobs = [a_job(at, 10, 1, others=(("gpu", 1),)) for at in range(3)]
    assert lived_through(site, jobs) == [0.0, 1.0, 10.0]
    assert lived_through(site, [*jobs, a_job(3, 1, 1)])[3] == 3.0, "a core is free"


def test_a_job_of_a_model_waits_for_it_while_others_are_free():
    site = a_site([with_gpus("g1", "a100", "v100")])
    jobs = [a_job(0, 10, 1, others=(("gpu:v100", 1),)), a_job(1, 5, 1, others=(("gpu:v100", 1),))]
    assert lived_through(site, [*jobs, a_job(2, 5, 1, others=(("gpu:a100", 1),))]) == [0.0, 10.0, 2.0]
    both = a_job(2, 5, 1, others=(("gpu", 2),))
    assert lived_through(site, [*jobs[:1], both]) == [0.0, 10.0]


def charged(billing, job):
    priority = PrioritySettings(policy="fcfs", fairshare=FairshareSettings(billing=billing))
    simulation = Simulation(a_site([with_gpus("g1", "a100", "v100"), with_gpus("g2")], priority=priority), [job])
    [decision] = simulation.decisions()
    return decision.placements[0].devices, simulation.work.rates.tolist()


def test_a_job_is_charged_for_the_model_that_it_got():
    billing = {"vcore": 1.0, "gpu:a100": 8.0, "gpu:v100": 2.0}
    assert charged(billing, a_job(0, 1, 4, others=(("gpu", 1),))) == ({"g1": ("g1-1",)}, [6.0])
    assert charged(billing, a_job(0, 1, 4, others=(("gpu:a100", 1),))) == ({"g1": ("g1-0",)}, [12.0])


def test_a_job_with_a_whole_node_is_charged_for_all_of_it_and_holds_its_gpus():
    billing = {"vcore": 1.0, "gpu": 10.0}
    job = a_job(0, 10, 8, whole_nodes=1, cores=1, others=(("gpu", 1),))
    assert charged(billing, job) == ({"g1": ("g1-0", "g1-1")}, [28.0])
    site = a_site([with_gpus("g1", "a100", "v100")])
    assert lived_through(site, [job, a_job(1, 1, 1)]) == [0.0, 10.0]


@pytest.mark.parametrize("limit", ["2", None])
def test_a_quota_of_gpus_counts_all_models(limit):
    own = {"name": "default", **({"resources": {"max": {"gpu": limit}}} if limit else {})}
    site = a_site([with_gpus("g1", *["a100"] * 4)], root={"name": "root", "queues": [own]})
    jobs = [a_job(at, 10, 1, others=(("gpu:a100", 1),)) for at in range(3)]
    assert lived_through(site, jobs) == [0.0, 1.0, 10.0 if limit else 2.0]
