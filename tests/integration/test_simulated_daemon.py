"""``rankd simulate`` decides as a daemon that lives through the same trace: events injected, a simulated node.

The daemon is real: a database, passes of the prioritizer, cycles of the scheduler. Only time is played: at each instant
first the jobs end that end then, then those are submitted that are submitted then, then both services have a look.
"""

from __future__ import annotations

import json
import math
import random

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster
from simulated import ONE_QUEUE, a_job, a_site, a_site_of, lived_through

from rankd.cli.common import database_source
from rankd.cli.main import main
from rankd.config.queues import read_queue_document
from rankd.core.model.device import Device, ListedDevice
from rankd.core.model.node import Node
from rankd.core.model.setting import FairshareSettings, PrioritySettings, SchedulingSettings
from rankd.core.simulate.route import Router
from rankd.core.simulate.shape import shape_of
from rankd.store.record.node import register_node
from rankd.wire.message import NodeRegistration, Report

CORES = 6


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def trace(seed):
    """A dozen jobs of two users that don't all fit at once; some end before their limits."""
    draw = random.Random(seed)
    jobs = []
    for _ in range(12):
        run_s = draw.randint(1, 20)
        limit_s = run_s + draw.choice([0, 0, 5, 20])
        jobs.append(
            a_job(draw.randint(0, 30), run_s, draw.randint(1, CORES), limit_s, user=draw.choice(["alice", "bob"]))
        )
    return sorted(jobs, key=lambda job: job.submit_s)


def configured(backfill, order):
    given = builder.configuration(priority=PrioritySettings(policy="fcfs"))
    scheduling = SchedulingSettings(backfill=backfill, backfill_order=order)
    settings = msgspec.structs.replace(given.settings, scheduling=scheduling)
    return msgspec.structs.replace(given, settings=settings)


async def lived_by_a_daemon(cluster, jobs, site):
    """The start of each job."""
    prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
    await register(cluster, site)
    asked = [request_of(job, site) for job in jobs]
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    arrived, reserved_s = 0, math.inf
    while arrived < len(jobs) or ends or reserved_s < math.inf:
        arrival_s = jobs[arrived].submit_s if arrived < len(jobs) else math.inf
        now = min(arrival_s, reserved_s, *ends.values(), math.inf)
        for job in [job for job, at in ends.items() if at <= now]:
            del ends[job]
            await cluster.end(job, at=NOW + now)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            await cluster.submit(asked[arrived], at=NOW + jobs[arrived].submit_s)
            arrived += 1
        await prioritizer.run_once(NOW + now)
        while await scheduler.run_once(NOW + now):
            pass
        for allocation, job, nodes in cluster.rows("SELECT id, job_id, nodes FROM allocations WHERE ended_at IS NULL"):
            if job not in starts:
                begun = Report(allocation=allocation, job=job, kind="started", at=NOW + now)
                await cluster.report(*[(node, begun) for node in json.loads(nodes)], at=NOW + now)
                starts[job] = now
                ends[job] = now + jobs[job - 1].run_s
        planned = [at - NOW for (at,) in cluster.rows("SELECT starts_at FROM reservations")]
        reserved_s = min((at for at in planned if at > now), default=math.inf)
    return [starts[place + 1] for place in range(len(jobs))]


async def register(cluster, site):
    """The nodes of the site join, with their devices."""
    for own in site.partitions:
        for node in own.nodes:
            devices = [ListedDevice(**msgspec.structs.asdict(one)) for one in node.devices]
            vcore = node.capacity["vcore"] // 1000
            name = "n1" if own.is_pool else node.name
            new = NodeRegistration(
                partition=own.partition.name, resources={"vcore": vcore}, devices=devices, agent=name
            )
            await cluster.database.write(lambda c, name=name, new=new: register_node(c, name, new, NOW))


def request_of(job, site):
    """The job as it would be submitted."""
    goal = Router(site).goal(job.queue, job.partition)
    shape = shape_of(job, site.partitions[goal.partition], site.types)
    return builder.accepted(
        job.user,
        partition=shape.partition,
        nodes=shape.nodes,
        resources=shape.resources,
        request={"time_limit_s": job.limit_s, "exclusive": shape.exclusive},
    )


@pytest.mark.parametrize(
    ("seed", "backfill", "order"),
    [(1, "easy", "rank"), (2, "easy", "shortest"), (3, "conservative", "rank"), (4, "strict", "rank")],
)
async def test_a_simulation_is_what_a_daemon_does(broker, tmp_path, seed, backfill, order):
    jobs = trace(seed)
    site = a_site(CORES, scheduling=SchedulingSettings(backfill=backfill, backfill_order=order))
    expected = lived_through(site, jobs)
    assert any(start > job.submit_s for start, job in zip(expected, jobs, strict=True)), "some have to wait"
    async with a_cluster(tmp_path, broker.url, configured(backfill, order)) as cluster:
        assert await lived_by_a_daemon(cluster, jobs, site) == expected


def with_gpus(name):
    """A node with four cores and GPUs of two models."""
    devices = tuple(
        Device(model=model, id=f"{name}-{place}", index=place) for place, model in enumerate(("a100", "a100", "v100"))
    )
    amounts = {"vcore": 4000, "gpu:a100": 2, "gpu:v100": 1, "gpu": 3}
    return Node(name=name, capacity=amounts, devices=devices)


NODES = {
    "cpu": [Node(name=f"n{place}", capacity={"vcore": 3000}) for place in (1, 2, 3)],
    "gpu": [with_gpus("g1"), with_gpus("g2")],
}
ASKED = [(("gpu", 1),), (("gpu", 3),), (("gpu:a100", 1),), (("gpu:a100", 3),), (("gpu:v100", 1),), ()]


def trace_of_two_partitions(seed):
    draw = random.Random(seed)
    jobs = []
    for job in trace(seed) + trace(seed + 100):
        is_gpu = draw.random() < 0.6
        others = draw.choice(ASKED) if is_gpu else ()
        cores = draw.randint(1, 8)
        whole = {"whole_nodes": 1, "cores": 1} if draw.random() < 0.1 else {"processors": cores}
        jobs.append(job._replace(partition="gpu" if is_gpu else "cpu", others=others, **whole))
    return sorted(jobs, key=lambda job: job.submit_s)


@pytest.mark.parametrize(("seed", "policy"), [(1, "fcfs"), (2, "multifactor"), (3, "multifactor")])
async def test_so_it_is_with_several_partitions_and_gpus(broker, tmp_path, monkeypatch, capsys, seed, policy):
    jobs = trace_of_two_partitions(seed)
    fairshare = FairshareSettings(half_life_s=100.0, billing={"vcore": 1.0, "gpu:a100": 8.0, "gpu:v100": 2.0})
    weights = {"age": 10.0, "fairshare": 10_000.0, "size": 100.0}
    priority = PrioritySettings(policy=policy, weights=weights, fairshare=fairshare)
    queues = [{"name": name, "queues": [ONE_QUEUE]} for name in NODES]
    given = builder.configuration(
        partitions=tuple(read_queue_document({"partitions": queues}).partitions), priority=priority
    )
    site = a_site_of(NODES, priority=priority, associations=given.associations)
    expected = lived_through(site, jobs)
    waited = [job.partition for job, start in zip(jobs, expected, strict=True) if start > job.submit_s]
    assert {"cpu", "gpu"} <= set(waited)
    async with a_cluster(tmp_path, broker.url, given) as cluster:
        assert await lived_by_a_daemon(cluster, jobs, site) == expected
        if policy == "fcfs":
            assert_its_records_give_the_same(cluster, expected, tmp_path, monkeypatch, capsys)


TOML = """[priority]
policy = "fcfs"
[priority.fairshare.billing]
vcore = 1.0
"gpu:a100" = 8.0
"gpu:v100" = 2.0
"""


def assert_its_records_give_the_same(cluster, expected, directory, monkeypatch, capsys):
    """``rankd simulate --last`` reads all jobs, a page at a time, and the nodes with their partitions and devices."""
    monkeypatch.setattr(database_source, "PAGE", 5)
    config = directory / "config"
    config.mkdir()
    (config / "rankd.toml").write_text(TOML)
    queues = [{"name": name, "queues": [ONE_QUEUE]} for name in NODES]
    (config / "queues.yaml").write_text(json.dumps({"partitions": queues}))
    words = ["simulate", "--db", str(cluster.database.path), "--config", str(config), "--starts", "-", "--json", "-"]
    assert main([*words, "--last", "2000w"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    rows = [line.split(",") for line in printed.out.splitlines() if line[:1].isdigit()]
    assert [float(start) - NOW for _, _, start, _ in sorted(rows, key=lambda row: int(row[0]))] == expected
    found = json.loads(printed.out[printed.out.index("{") :])
    assert (found["jobs"], [one["name"] for one in found["by_partition"]]) == (len(expected), list(NODES))
    assert main([*words, "--last", "1h"]) == 1
    assert "no job that was submitted in the last 1h and has ended; take a longer period" in capsys.readouterr().err
