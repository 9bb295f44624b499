"""Simulations for tests: a site from its settings, and jobs that are written down briefly."""

from pathlib import Path

from rankd.config.plugin import load_application_sorts, load_factors, load_node_sort
from rankd.config.queues import read_queue_document
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings
from rankd.core.simulate.simulator import Simulation
from rankd.core.simulate.site import Site, pool
from rankd.core.simulate.swf import read_swf
from rankd.core.simulate.trace import Selection, WorkJob, select

PART = Path(__file__).parent / "trace/ctc-sp2-part.swf"
ONE_QUEUE = {"name": "root", "queues": [{"name": "default"}]}


def a_site(nodes, *, root=None, priority=None, scheduling=None, associations=(), groups=None):
    priority = priority or PrioritySettings(policy="fcfs")
    [partition] = read_queue_document({"partitions": [{"name": "default", "queues": [root or ONE_QUEUE]}]}).partitions
    return Site(
        priority=priority,
        scheduling=scheduling or SchedulingSettings(),
        qos=[Qos(name="normal")],
        default_qos="normal",
        partition=partition,
        nodes=pool(nodes) if isinstance(nodes, int) else nodes,
        associations=associations,
        groups=groups or {},
        factors=load_factors(priority),
        node_sort=load_node_sort(partition.nodesort.type),
        application_sorts=load_application_sorts([partition]),
    )


def a_job(submit_s, run_s, processors, limit_s=None, *, user="u1", group="g1", queue="", number="1"):
    limit_s = run_s if limit_s is None else limit_s
    return WorkJob(number, float(submit_s), float(run_s), processors, float(limit_s), user, group, queue, "")


def part_of_ctc(**selection):
    """The jobs of the trace in the repository."""
    with PART.open("rb") as file:
        return select(read_swf(file), Selection(**selection), 338)


def lived_through(site, jobs):
    """The start of each job."""
    simulation = Simulation(site, jobs)
    for _ in simulation.decisions():
        pass
    return simulation.starts_s.tolist()


def as_tuples(jobs):
    """What :mod:`easy_reference` takes."""
    return [(job.submit_s, job.run_s, job.processors, job.limit_s) for job in jobs]
