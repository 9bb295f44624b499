"""Simulations for tests: a site from its settings, and jobs that are written down briefly."""

from pathlib import Path

from rankd.config.plugin import load_application_sorts, load_factors, load_node_sort
from rankd.config.queues import read_queue_document
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings
from rankd.core.simulate.simulator import Simulation
from rankd.core.simulate.site import SimulatedPartition, Site, pool
from rankd.core.simulate.swf import read_swf
from rankd.core.simulate.trace import Selection, WorkJob, over, select

PART = Path(__file__).parent / "trace/ctc-sp2-part.swf"
ONE_QUEUE = {"name": "root", "queues": [{"name": "default"}]}


def a_site(nodes, *, root=None, priority=None, scheduling=None, associations=(), groups=None):
    """One partition on these nodes, or on a pool of this number of cores."""
    return a_site_of(
        {"default": nodes},
        roots={"default": root or ONE_QUEUE},
        priority=priority,
        scheduling=scheduling,
        associations=associations,
        groups=groups or {},
    )


def a_site_of(nodes, *, roots=None, priority=None, scheduling=None, **fields):
    """Several partitions: the nodes of each by name, and its queues, if they are not only root.default."""
    priority = priority or PrioritySettings(policy="fcfs")
    queues = [{"name": name, "queues": [(roots or {}).get(name, ONE_QUEUE)]} for name in nodes]
    partitions = read_queue_document({"partitions": queues}).partitions
    return Site(
        priority=priority,
        scheduling=scheduling or SchedulingSettings(),
        qos=[Qos(name="normal")],
        default_qos="normal",
        partitions=[
            SimulatedPartition(
                partition=partition, nodes=_nodes(nodes[partition.name]), node_sort=load_node_sort("fair")
            )
            for partition in partitions
        ],
        factors=load_factors(priority),
        application_sorts=load_application_sorts(partitions),
        **fields,
    )


def _nodes(nodes):
    return pool(nodes) if isinstance(nodes, int) else nodes


def a_job(
    submit_s, run_s, processors, limit_s=None, *, user="u1", group="g1", queue="", partition="", number="1", **fields
):
    limit_s = run_s if limit_s is None else limit_s
    times = float(submit_s), float(run_s), processors, float(limit_s)
    return WorkJob(number, *times, user, group, queue, partition, **fields)


def part_of_ctc(**selection):
    """The jobs of the trace in the repository."""
    with PART.open("rb") as file:
        return select(read_swf(file), Selection(**selection), over(338))


def lived_through(site, jobs):
    """The start of each job."""
    simulation = Simulation(site, jobs)
    for _ in simulation.decisions():
        pass
    return simulation.starts_s.tolist()


def as_tuples(jobs):
    """What :mod:`easy_reference` takes."""
    return [(job.submit_s, job.run_s, job.processors, job.limit_s) for job in jobs]
