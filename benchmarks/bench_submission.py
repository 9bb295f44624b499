"""Submissions per second up to the durable answer: single jobs with 64 in flight, and batches of 1,000 jobs.

There are two kinds of batches: one job many times (as `rankd submit --count`), and jobs that are all different.

Everything is real: nats-server with sync always, the intake with durable group commits; prioritizer, scheduler and
relay run on the same cores. The jobs ask for a label that no node has, so they stay pending.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

import nats
import uvloop
from measure import connected, machine, percentile, report

from rankd.store.engine.driver import sqlite3

SINGLES = 20_000
IN_FLIGHT = 64
USERS = 20
BATCHES = 60
BATCH = 1_000
ROUNDS = 5
JOB = {"command": ["true"], "resources": {"vcore": 1}, "constraints": "never"}


async def singles(client: nats.NATS, count: int, users: int = USERS) -> tuple[float, list[float]]:
    """Seconds for all jobs, and the latency of each. They are of ``users`` users in turn."""
    latencies: list[float] = []
    payload = json.dumps(JOB).encode()
    left = iter(range(count))

    async def one_after_the_other(user: int) -> None:
        for _ in left:
            begin = time.perf_counter()
            reply = await client.request(f"rankd.v1.user.user{user}.job.submit", payload, timeout=60)
            if b'"id"' not in reply.data:
                raise RuntimeError(reply.data)
            latencies.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(one_after_the_other(user % users) for user in range(IN_FLIGHT)))
    return time.perf_counter() - begin, latencies


ALIKE = [JOB] * BATCH
DIFFERENT = [JOB | {"name": f"step-{step}", "command": ["true", "--step", str(step)]} for step in range(BATCH)]


async def batches(client: nats.NATS, count: int, jobs: list[dict[str, Any]], at_once: int = 4) -> float:
    """Seconds for all batches."""
    payload = json.dumps({"jobs": jobs}).encode()
    left = iter(range(count))

    async def one_after_the_other(user: int) -> None:
        for _ in left:
            reply = await client.request(f"rankd.v1.user.user{user}.job.submit", payload, timeout=120)
            if len(json.loads(reply.data)["accepted"]) != BATCH:
                raise RuntimeError(reply.data[:500])

    begin = time.perf_counter()
    await asyncio.gather(*(one_after_the_other(user) for user in range(at_once)))
    return time.perf_counter() - begin


async def event_lag(database: Path) -> float:
    """Seconds until the last event so far is in the stream."""
    with sqlite3.connect(database) as connection:
        newest = connection.execute("SELECT max(id) FROM job_event").fetchone()[0]
    begin = time.perf_counter()
    while True:
        with sqlite3.connect(database) as connection:
            mark = (
                connection.execute("SELECT max(event_id) FROM relay_marks WHERE name = 'job_events'").fetchone()[0] or 0
            )
        if mark >= newest:
            return time.perf_counter() - begin
        await asyncio.sleep(0.01)


async def measured() -> list[dict[str, Any]]:
    """All rates and latencies."""
    rows = []
    with machine("--simulate", "1") as up:
        client = await connected(up)
        await singles(client, 500)
        rounds = []
        for _ in range(ROUNDS):
            took, latencies = await singles(client, SINGLES // ROUNDS)
            rounds.append((SINGLES / ROUNDS / took, latencies))
        lag = await event_lag(Path(up["db"]))
        everyone = [latency * 1000 for _, latencies in rounds for latency in latencies]
        rows.append(
            {
                "what": f"single jobs, {IN_FLIGHT} in flight",
                "jobs/s": statistics.median(rate for rate, _ in rounds),
                "worst": min(rate for rate, _ in rounds),
                "p50 ms": percentile(everyone, 0.5),
                "p99 ms": percentile(everyone, 0.99),
                "event lag s": lag,
            }
        )
        for what, jobs in (("alike", ALIKE), ("different", DIFFERENT)):
            rates = [BATCHES / ROUNDS * BATCH / await batches(client, BATCHES // ROUNDS, jobs) for _ in range(ROUNDS)]
            rows.append(
                {
                    "what": f"batches of {BATCH}, {what}",
                    "jobs/s": statistics.median(rates),
                    "worst": min(rates),
                    "p50 ms": 0.0,
                    "p99 ms": 0.0,
                    "event lag s": await event_lag(Path(up["db"])),
                }
            )
        await client.close()
    return rows


async def main() -> None:
    """Measure and report."""
    report("submission", f"{ROUNDS} rounds, durable commits, all services running", await measured())


if __name__ == "__main__":
    uvloop.run(main())
