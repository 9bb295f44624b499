"""100,000 pending jobs updated, held and cancelled by one filter each; and the latency of another user meanwhile.

Everything is real: nats-server with sync always, the intake with durable group commits; prioritizer, scheduler and
relay run on the same cores. The other user submits one job after the other, and waits for each answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import nats
import uvloop
from measure import connected, machine, percentile, report

JOBS = 100_000
BATCH = 10_000
PATIENCE_S = 600
MINE = {"filter": {"users": ["mine"], "limit": JOBS}}
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("urgency", "job.update", {"urgency": 10}),
    ("queue and QoS", "job.update", {"queue": "root.batch", "qos": "low"}),
    ("dry run", "job.update", {"urgency": 3, "dry_run": True}),
    ("hold", "job.hold", {}),
    ("cancel", "job.cancel", {}),
]


async def ask(client: nats.NATS, verb: str, body: object, user: str = "mine") -> Any:
    """The decoded answer; raises if it is an error."""
    subject = f"rankd.v1.user.{user}.{verb}"
    reply = await client.request(subject, json.dumps(body).encode(), timeout=PATIENCE_S)
    if (reply.headers or {}).get("Nats-Service-Error"):
        raise RuntimeError(reply.data)
    return json.loads(reply.data)


async def fill(client: nats.NATS) -> None:
    """Submit the jobs, each with a different name."""
    for start in range(0, JOBS, BATCH):
        jobs = [{"command": ["true"], "name": f"step-{start + step}"} for step in range(BATCH)]
        await ask(client, "job.submit", {"jobs": jobs})


async def changed(client: nats.NATS, verb: str, given: dict[str, Any]) -> tuple[float, list[float]]:
    """Seconds for all jobs, and the milliseconds of each submission of the other user meanwhile."""
    waits: list[float] = []

    async def submit_until(over: asyncio.Event) -> None:
        while not over.is_set():
            begin = time.perf_counter()
            await ask(client, "job.submit", {"command": ["true"]}, "other")
            waits.append((time.perf_counter() - begin) * 1000)

    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(submit_until(over))
        begin = time.perf_counter()
        reply = await ask(client, verb, {**MINE, **given})
        took = time.perf_counter() - begin
        over.set()
    if reply.get("done_count", len(reply["done"])) != JOBS:
        raise RuntimeError({name: value for name, value in reply.items() if name != "done"})
    return took, waits


async def measured() -> list[dict[str, Any]]:
    """Run all requests, one after the other, on the same jobs."""
    rows = []
    with machine("--no-local-agent") as up:
        client = await connected(up)
        await fill(client)
        for what, verb, given in REQUESTS:
            took, waits = await changed(client, verb, given)
            rows.append(
                {
                    "what": f"{verb}: {what}" if verb == "job.update" else verb,
                    "s": took,
                    "jobs/s": JOBS / took,
                    "others' p50 ms": percentile(waits, 0.5),
                    "p99 ms": percentile(waits, 0.99),
                    "worst ms": max(waits),
                }
            )
        await client.close()
    return rows


async def main() -> None:
    """Measure and report."""
    report("update", f"{JOBS} pending jobs, durable commits, all services running", await measured())


if __name__ == "__main__":
    uvloop.run(main())
