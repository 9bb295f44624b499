"""The soak: a workload under faults, then the verdict.

``python tests/soak/run.py SECONDS SEED [DIRECTORY]`` prints a JSON report; its exit status says whether all held.
"""

from __future__ import annotations

import asyncio
import collections
import json
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak import verdict
from soak.cluster import NODES, Cluster
from soak.device_verdict import given_devices, wrong_devices
from soak.fault import Faults
from soak.reload import Reloads
from soak.session import Sessions
from soak.session_verdict import counts, wrong_sessions
from soak.workload import Workload

STILL_S = 120
"""A site is stuck if it has work left, and records, publishes and charges nothing for this time."""
SETTLE_S = 400
"""All clients have to end within this time after the last fault, and all jobs within this time after them."""


async def soak(directory: Path, seconds: float, seed: int) -> dict[str, object]:
    """The report; ``wrong`` is empty if all held."""
    cluster = Cluster(directory)
    await cluster.start()
    faults, workload, reloads = Faults(cluster, seed), Workload(cluster, seed), Reloads(cluster, seed)
    sessions = Sessions(cluster, seed)
    begin = time.monotonic()
    try:
        async with asyncio.TaskGroup() as keeping:
            keeper = keeping.create_task(cluster.keep_up())
            async with asyncio.TaskGroup() as group:
                group.create_task(workload.run(seconds))
                group.create_task(faults.run(seconds))
                group.create_task(reloads.run(seconds))
                group.create_task(sessions.run(seconds))
            quiet_at = time.monotonic()
            unsettled = await sessions.settle(SETTLE_S)
            unsettled += await settle(cluster) + await reloads.settle(STILL_S)
            settled_s = time.monotonic() - quiet_at
            keeper.cancel()
        wrong = unsettled + await judge(cluster, workload)
        jobs = verdict.jobs_by_name(cluster.database)
        wrong += wrong_sessions(sessions.seen, jobs)
    finally:
        await cluster.stop()
    wrong += [f"{surprise} by itself" for child in cluster.children.values() for surprise in child.surprises]
    return report(
        cluster, workload, faults, {"ran_s": round(quiet_at - begin, 1), "settled_s": round(settled_s, 1)}
    ) | {
        "reloads": reloads.count,
        "sessions": counts(sessions.seen, jobs),
        "wrong": wrong,
        "tracebacks": collections.Counter(cluster.tracebacks()),
    }


async def settle(cluster: Cluster) -> list[str]:
    """Until every job has ended, every event is published and every allocation charged.

    It waits as long as something happens: how long the rest takes depends on what else the machine does.
    """
    begin = moved_at = time.monotonic()
    before = None
    while (now := time.monotonic()) - begin < SETTLE_S and now - moved_at < STILL_S:
        progress = verdict.progress(cluster.database)
        if progress.done:
            return []
        if progress != before:
            before, moved_at = progress, now
        await asyncio.sleep(0.2)  # the records are the verdict; what else is told may be lost under faults
    left = verdict.open_jobs(cluster.database)
    unsettled = (
        f"not settled {now - begin:.0f} s after the last fault, nothing happened for {now - moved_at:.0f} s:"
        f" {left} jobs have not ended; {before}"
    )
    return [unsettled, *verdict.stuck_jobs(cluster.database)]


async def judge(cluster: Cluster, workload: Workload) -> list[str]:
    database = cluster.database
    return [
        *workload.refused,
        *verdict.lost_submissions(database, workload.accepted, workload.enqueued),
        *verdict.wrong_retries(database, workload.retried),
        *verdict.wrong_ends(database),
        *verdict.double_starts(cluster.starts),
        *verdict.over_allocations(database),
        *wrong_devices(database, cluster.starts, cluster.clashes),
        *verdict.torn_arrays(database),
        *verdict.early_starts(database),
        *verdict.wrong_usage(database),
        *verdict.open_allocations(database),
        *await verdict.wrong_events(database, f"nats://127.0.0.1:{cluster.port}"),
    ]


def report(cluster: Cluster, workload: Workload, faults: Faults, times: dict[str, float]) -> dict[str, object]:
    counted = verdict.rows(cluster.database, "SELECT state, count(*) AS n FROM jobs GROUP BY state")
    events = verdict.rows(cluster.database, "SELECT event, count(*) AS n FROM job_events GROUP BY event")
    return times | {
        "faults": sum(faults.count.values()),
        "by_kind": dict(sorted(faults.count.items())),
        "nodes": NODES,
        "submitted": len(workload.accepted),
        "enqueued": len(workload.enqueued),
        "retried": len(workload.retried),
        "with_devices": len(given_devices(cluster.database)),
        "jobs": {row["state"]: row["n"] for row in counted},
        "events": {row["event"]: row["n"] for row in events},
    }


def main() -> int:
    """From the command line."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="rankd-soak-") as temporary:
        directory = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(temporary) / "soak"
        outcome = asyncio.run(soak(directory, seconds, seed))
    print(json.dumps(outcome, indent=1))
    return 1 if outcome["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
