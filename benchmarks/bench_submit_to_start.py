"""From submit to started on an idle system, and with 100,000 pending jobs that fit no node; with the time per phase.

50 jobs of `true`, one after the other.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from measure import connected, machine, report, summary

from rankd.store.engine.driver import sqlite3

JOBS = 50
PENDING = (0, 100_000)
BATCH = 1_000


async def submit_one_by_one(up: dict[str, Any]) -> list[tuple[int, float, float]]:
    """(job, sent, answered) of each job; waits for each job's end before the next."""
    client = await connected(up)
    events = await client.subscribe("rankd.v1.event.job.bench")
    body = json.dumps({"command": ["true"]}).encode()
    sent = []
    for _ in range(JOBS):
        begun = time.time()
        reply = await client.request("rankd.v1.user.bench.job.submit", body, timeout=10)
        job = json.loads(reply.data)["id"]
        sent.append((job, begun, time.time()))
        ended = False
        while not ended:
            message = await events.next_msg(timeout=10)
            ended = any(e["job"] == job and e["state"] == "completed" for e in json.loads(message.data)["events"])
    await client.close()
    return sent


def phases(database: str, sent: list[tuple[int, float, float]]) -> dict[str, list[float]]:
    """Milliseconds from the sending of the submission to each step, by the times in the records."""
    connection = sqlite3.connect(database)
    steps: dict[str, list[float]] = {
        "answered (durable)": [],
        "ranked (generation visible)": [],
        "allocated (cycle began)": [],
        "started (process runs)": [],
        "ended": [],
    }
    for job, begun, answered in sent:
        [(generation, allocated, started, ended)] = connection.execute(
            "SELECT generation, allocated_at, started_at, ended_at FROM allocation WHERE job_id = ?", (job,)
        ).fetchall()
        [(ranked,)] = connection.execute("SELECT made_at FROM generation WHERE number = ?", (generation,)).fetchall()
        for step, at in zip(steps, (answered, ranked, allocated, started, ended), strict=True):
            steps[step].append((at - begun) * 1000)
    return steps


async def fill(up: dict[str, Any], count: int) -> None:
    """Submit ``count`` jobs of 100 shapes that wait without end for a label that no node has."""
    client = await connected(up)
    for start in range(0, count, BATCH):
        jobs = [
            {"command": ["true"], "constraints": "never", "resources": {"vcore": 1, "memory": f"{number % 100 + 1}Mi"}}
            for number in range(start, min(start + BATCH, count))
        ]
        body = json.dumps({"jobs": jobs}).encode()
        await client.request(f"rankd.v1.user.user{start // BATCH % 20}.job.submit", body, timeout=60)
    await client.close()


def until_ranked(database: str, count: int) -> None:
    """Wait until a full pass includes all of them."""
    while True:
        with sqlite3.connect(database) as connection:
            found = connection.execute("SELECT max(jobs) FROM generation WHERE kind = 'full'").fetchone()[0]
        if (found or 0) >= count:
            return
        time.sleep(0.5)


def main() -> None:
    """Measure and report."""
    rows = []
    for pending in PENDING:
        with machine("--name", "bench") as up:
            asyncio.run(fill(up, pending))
            until_ranked(up["db"], pending)
            steps = phases(up["db"], asyncio.run(submit_one_by_one(up)))
            rows += [
                {"pending": pending, "step, ms since sent": step} | summary(values) for step, values in steps.items()
            ]
    conditions = (
        f"{JOBS} jobs of `true` one after the other; every service, nats-server (sync always) and the real agent"
        " on the same cores; durable commits"
    )
    report("submit_to_start", conditions, rows)


if __name__ == "__main__":
    main()
