"""``rankd simulate`` decides as a daemon that lives through the same trace: events injected, a simulated node.

The daemon is real: a database, passes of the prioritizer, cycles of the scheduler. Only time is played: at each instant
first the jobs end that end then, then those are submitted that are submitted then, then both services have a look.
"""

from __future__ import annotations

import math
import random

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster
from simulated import a_job, a_site, lived_through

from rankd.core.model.setting import PrioritySettings, SchedulingSettings

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


async def lived_by_a_daemon(cluster, jobs):
    """The start of each job."""
    prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
    await cluster.add_node("n1", vcore=CORES)
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
            one = jobs[arrived]
            await cluster.submit(
                builder.accepted(
                    one.user, resources={"vcore": one.processors * 1000}, request={"time_limit_s": one.limit_s}
                ),
                at=NOW + one.submit_s,
            )
            arrived += 1
        await prioritizer.run_once(NOW + now)
        while await scheduler.run_once(NOW + now):
            pass
        for (job,) in cluster.rows("SELECT job_id FROM allocations WHERE ended_at IS NULL"):
            if job not in starts:
                starts[job] = now
                ends[job] = now + jobs[job - 1].run_s
        planned = [at - NOW for (at,) in cluster.rows("SELECT starts_at FROM reservations")]
        reserved_s = min((at for at in planned if at > now), default=math.inf)
    return [starts[place + 1] for place in range(len(jobs))]


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
        assert await lived_by_a_daemon(cluster, jobs) == expected
