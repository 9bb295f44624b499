"""Jobs per second from submission to recorded end: trivial jobs on simulated nodes, and real `/bin/true`.

Everything is durable and complete: nats-server with sync always, group commits, ranking, placement, allocations,
reports, and published events. All jobs are submitted first. The clock starts with the first start and stops with the
last end, by the times in the records.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import uvloop
from measure import connected, machine, report

from rankd.store.engine.driver import sqlite3

BATCH = 1_000
PATIENCE_S = 600
SIMULATED = ("--no-local-agent", "--simulate", "64")
CASES = [
    ("64 simulated nodes, jobs of 0 s", 30_000, SIMULATED, {"RANKD_SIMULATE_S": "0"}, {"vcore": 1}),
    ("real /bin/true, one agent", 5_000, ("--name", "bench"), {}, {"memory": "64Mi"}),
]
"""(what, jobs, options of rankd up, the jobs' environment and resources): hundreds fit at a time, so that the way of an
end to the scheduler and back is shared by many. Real ones ask for no cores, which would be limited to so much."""


async def submit(up: dict[str, Any], count: int, env: dict[str, str], resources: dict[str, Any]) -> None:
    """Submit all jobs, of 20 users, in messages of 1,000."""
    client = await connected(up)
    job = {"command": ["/bin/true"], "env": env, "resources": resources}
    for start in range(0, count, BATCH):
        body = json.dumps({"jobs": [job] * min(BATCH, count - start)}).encode()
        reply = await client.request(f"rankd.v1.user.user{start // BATCH % 20}.job.submit", body, timeout=60)
        if json.loads(reply.data)["rejected"]:
            raise RuntimeError(reply.data[:500])
    await client.close()


def until_done(database: str, count: int) -> None:
    """Wait for the last end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with sqlite3.connect(database) as connection:
            [(ended,)] = connection.execute("SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL")
        if ended == count:
            return
        time.sleep(0.5)
    raise RuntimeError(f"{ended} of {count} jobs ended within {PATIENCE_S} s")


def measured(database: str, count: int) -> dict[str, float]:
    """Rates over all jobs, and over the middle 80 % (sustained)."""
    with sqlite3.connect(database) as connection:
        ends = [at for (at,) in connection.execute("SELECT ended_at FROM jobs ORDER BY ended_at")]
        [(first,)] = connection.execute("SELECT min(started_at) FROM jobs")
        [(completed,)] = connection.execute("SELECT count(*) FROM jobs WHERE state = 'completed'")
    if completed != count:
        raise RuntimeError(f"{completed} of {count} completed")
    low, high = count // 10, count - count // 10
    return {
        "jobs": count,
        "seconds": ends[-1] - first,
        "jobs/s": count / (ends[-1] - first),
        "sustained jobs/s": (high - low) / (ends[high - 1] - ends[low]),
    }


def main() -> None:
    """Measure and report."""
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rows = []
    for what, jobs, options, env, resources in CASES:
        count = int(jobs * share)
        with machine(*options) as up:
            uvloop.run(submit(up, count, env, resources))
            until_done(up["db"], count)
            rows.append({"what": what} | measured(up["db"], count))
    report("throughput", "everything durable, all services on the same cores", rows)


if __name__ == "__main__":
    main()
