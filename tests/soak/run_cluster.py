"""The soak on a site that outlives its parts: PostgreSQL, three brokers, two instances of each service.

``python tests/soak/run_cluster.py SECONDS SEED [DIRECTORY]`` prints a JSON report; its exit status says whether all
held. At the end, ``rankd db copy`` moves the records to SQLite, where the verdict of the other soak reads them.
"""

from __future__ import annotations

import asyncio
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak import verdict
from soak.cluster import BIN, SERVICES, UNSTOPPED
from soak.cluster_fault import ClusterFaults
from soak.lease_cluster import LeaseCluster
from soak.reload import Reloads
from soak.run import STILL_S, judge, report
from soak.verdict import Progress
from soak.workload import Workload

SETTLE_S = 1_200
"""As long as something happens. Where ten other programs compute, these 24 processes end three jobs a second."""
PROGRESS = """
SELECT (SELECT count(*) FROM jobs WHERE state IN ('pending', 'allocated', 'running')) AS open_jobs,
       (SELECT coalesce(max(id), 0) FROM job_events) AS recorded,
       coalesce((SELECT event_id FROM relay_marks WHERE name = 'job_events'), 0) AS published,
       (SELECT count(*) FROM allocations WHERE charged = 0) AS uncharged,
       (SELECT count(*) FROM allocation_nodes WHERE taken_at IS NOT NULL) AS taken"""


def progress(cluster: LeaseCluster) -> Progress | None:
    """How far the records are; None if the database does not answer."""
    with suppress(psycopg.Error), psycopg.connect(cluster.url, connect_timeout=2) as connection:
        cursor = connection.execute(PROGRESS)
        names = [column.name for column in cursor.description]
        return Progress(**dict(zip(names, cursor.fetchone(), strict=True)))
    return None


async def settle(cluster: LeaseCluster) -> list[str]:
    """Until every job has ended, every event is published and every allocation charged."""
    begin = moved_at = time.monotonic()
    before = None
    while (now := time.monotonic()) - begin < SETTLE_S and now - moved_at < STILL_S:
        found = await asyncio.to_thread(progress, cluster)
        if found is not None and found.done:
            return []
        if found != before:
            before, moved_at = found, now
        await asyncio.sleep(0.2)
    return [
        f"not settled {now - begin:.0f} s after the last fault, nothing happened for {now - moved_at:.0f} s: {before}"
    ]


async def soak(directory: Path, seconds: float, seed: int) -> dict[str, object]:
    """The report; ``wrong`` is empty if all held."""
    cluster = LeaseCluster(directory)
    try:
        await cluster.start()
        faults, workload, reloads = ClusterFaults(cluster, seed), Workload(cluster, seed), Reloads(cluster, seed)
        begin = time.monotonic()
        async with asyncio.TaskGroup() as keeping:
            kept = [keeping.create_task(cluster.keep_up()), keeping.create_task(cluster.watch())]
            async with asyncio.TaskGroup() as group:
                group.create_task(workload.run(seconds))
                group.create_task(faults.run(seconds))
                group.create_task(reloads.run(seconds))
            quiet_at = time.monotonic()
            unsettled = await settle(cluster) + await reloads.settle(STILL_S)
            settled_s = time.monotonic() - quiet_at
            for task in kept:
                task.cancel()
        await cluster.stop_services()
        copy = [BIN / "rankd", "db", "copy", "--from", cluster.url, "--to", f"sqlite:///{cluster.database}"]
        await asyncio.to_thread(subprocess.run, copy, check=True, stdout=subprocess.DEVNULL)
        wrong = unsettled + (verdict.stuck_jobs(cluster.database) if unsettled else [])
        wrong += await judge(cluster, workload)
        wrong += [what for child in cluster.children.values() for what in child.surprises if UNSTOPPED in what]
    finally:
        await cluster.stop()
    times = {"ran_s": round(quiet_at - begin, 1), "settled_s": round(settled_s, 1)}
    return report(cluster, workload, faults, times) | {
        "promotions": cluster.pair.promotions,
        "load": [round(value, 1) for value in os.getloadavg()],
        "take_overs": {role: spread(sorted(cluster.took(role))) for role in SERVICES},
        "reloads": reloads.count,
        "wrong": wrong,
        "tracebacks": collections.Counter(cluster.tracebacks()),
    }


def spread(seconds: list[float]) -> dict[str, float]:
    """How many there were, and their percentiles in seconds, until the first work of the new holder."""
    if not seconds:
        return {"n": 0}
    at = lambda share: round(seconds[min(len(seconds) - 1, int(share * len(seconds)))], 2)  # noqa: E731
    return {"n": len(seconds), "median": at(0.5), "p90": at(0.9), "p99": at(0.99), "worst": round(seconds[-1], 2)}


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
