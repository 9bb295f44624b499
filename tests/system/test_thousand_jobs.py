"""A thousand identical jobs of twenty users: each exactly once, in the order of the recorded generations."""

from __future__ import annotations

import collections

from system.client import connected

USERS = [f"user{number:02d}" for number in range(20)]
JOBS_PER_USER = 50
ALL = len(USERS) * JOBS_PER_USER
NODES = ("--no-local-agent", "--simulate", "4")


async def submit_all(client) -> None:
    for user in USERS:
        await client.submit(user, *[{"command": ["sleep", "0.3"]} for _ in range(JOBS_PER_USER)])


def check_each_ran_once(machine) -> None:
    assert machine.rows("SELECT state, count(*) AS n FROM job GROUP BY state") == [{"state": "completed", "n": ALL}]
    starts = machine.rows("SELECT job_id FROM job_event WHERE event = 'start'")
    assert len({row["job_id"] for row in starts}) == len(starts) == ALL
    allocations = machine.rows("SELECT job_id FROM allocation")
    assert len({row["job_id"] for row in allocations}) == len(allocations) == ALL


def check_order(machine) -> None:
    """Within a generation by rank, and never from an older generation after a newer one."""
    placed = machine.rows("SELECT generation, rank, cycle FROM allocation ORDER BY id")
    keys = [(row["generation"], row["cycle"], row["rank"]) for row in placed]
    assert keys == sorted(keys)


def check_never_over_allocated(machine) -> None:
    """Replays the events: no node ever holds more jobs than it has cores."""
    nodes = {row["id"]: row["nodes"] for row in machine.rows("SELECT job_id AS id, nodes FROM allocation")}
    held: collections.Counter[str] = collections.Counter()
    for row in machine.rows("SELECT job_id, event FROM job_event ORDER BY id"):
        if row["event"] == "allocate":
            held[nodes[row["job_id"]]] += 1
        elif row["event"] == "complete":
            held[nodes[row["job_id"]]] -= 1
        assert max(held.values(), default=0) <= 8


async def test_a_thousand_jobs_run_once_each_in_the_order_of_the_generations(machine):
    machine.start(*NODES)
    async with connected(machine.up["nats"], machine.services) as client:
        await submit_all(client)
        await client.until_ended(ALL)
    check_each_ran_once(machine)
    check_order(machine)
    check_never_over_allocated(machine)


async def test_a_thousand_jobs_survive_kill_9_of_every_service_and_the_broker(machine):
    machine.start(*NODES)
    async with connected(machine.up["nats"], machine.services) as client:
        await submit_all(client)
        for done, service in ((50, "prioritizer"), (200, "scheduler"), (350, "intake"), (500, "nats")):
            await client.until_ended(done)
            machine.kill(service)
        await client.until_ended(ALL)
    check_each_ran_once(machine)
    check_never_over_allocated(machine)
