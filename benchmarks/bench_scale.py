"""A million pending jobs: the promises of the design, measured on real processes, broker, file and commits.

5,000 associations, 2,000 leaf queues in 4 levels, 2,000 shapes. There are several runs of `rankd up`. One has the usual
settings, with the command line beside it. In another one, full passes follow each other without pause; this is repeated
with a thousand jobs for comparison. No job fits the single node, which has no memory and offers a special resource.
Probes request that resource, so each one is submitted, ranked and allocated past all the others. In two more runs, with
2,000 leaves and with 20, another node is added, which the first jobs fill. Then jobs are submitted that can't start.
`bench_scale.py 100000` takes less time.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import bench_submission
from large_site import SHAPES, make_database, request_like, write_config
from measure import report
from scale_site import PATIENCE_S, QUEUE, QUEUE_OF_FEW, Row, Site, row, with_site

from rankd.store.engine.driver import sqlite3
from rankd.store.engine.lock import FileLock

JOBS = 1_000_000
FEW_JOBS = 1_000
STARTS = 5
PROBES = 150
CYCLES = 400
BLOCKED = 1_000
FEW_LEAVES = (2, 10)
QUERIES = 7
PASSES = 5
LOCKS = 1_000


async def visible(site: Site, what: str, target: str, probes: int = PROBES) -> list[Row]:
    """Probes one after the other: the time from sending each until its rank can be read."""
    times = []
    ranked = (
        "SELECT rank FROM job_priority WHERE id = ? UNION ALL SELECT 0 FROM jobs WHERE id = ? AND state <> 'pending'"
    )
    for _ in range(probes):
        begun = time.perf_counter()
        job = await site.submit()
        await site.until(ranked, job, job)
        times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.03)
    return [row(what, times, "ms", target)]


async def cycles(site: Site, what: str, target: str, jobs: int = CYCLES) -> list[Row]:
    """Cycles that start one probe each: the time from the trigger to the commit, as the scheduler counts it.

    Also measures the time from when the probe's generation became visible until its node has taken the allocation. It
    uses the machine's clock, because the event itself may arrive after the allocation.
    """
    await site.count_anew()
    times: list[float] = []
    ranked: asyncio.Queue[float] = asyncio.Queue()

    async def on_ranking(message: Any) -> None:
        event = json.loads(message.data)
        if event["new_jobs"]:
            ranked.put_nowait(event["at"] if event["kind"] == "delta" else time.time())

    await site.client.subscribe("rankd.v1.event.ranking", cb=on_ranking)
    for _ in range(jobs):
        job = await site.submit()
        begun = await asyncio.wait_for(ranked.get(), PATIENCE_S)
        found = 0
        while found != job:  # an allocation of an earlier run may arrive late
            found, at = await asyncio.wait_for(site.taken.get(), PATIENCE_S)
        times.append((at - begun) * 1000)
        await asyncio.sleep(0.02)
        while not ranked.empty():
            ranked.get_nowait()
    return [
        await site.cycle_row(what, target),
        row(f"{what}: generation until its node has the allocation", times, "ms", ""),
    ]


async def blocked(site: Site, what: str) -> list[Row]:
    """Jobs that can't start on a full cluster: the time of their cycles, from the trigger to the commit.

    First, jobs that ask for the same as others that wait (those of 2,000 shapes that need more than one free core).
    Then, jobs with different requests, so that each has a reason to be committed. The scheduler's processor time covers
    all its work meanwhile, divided by the number of jobs.
    """
    await site.fill()
    wide = [number for number in range(SHAPES) if number % 64 > 0]
    alike = [request_like(wide[place * 7 % len(wide)]) for place in range(BLOCKED)]
    others = [{"resources": {"vcore": 1 + place % 8, "memory": 2**30 + place}} for place in range(BLOCKED)]
    rows = []
    for jobs, of in ((alike, what), (others, f"{what}, each job of a shape of its own")):
        await site.count_anew()
        used = site.processor_ms("scheduler")
        for one in jobs:
            job = await site.submit(one)
            await site.until("SELECT nullif(reason, '') FROM job_priority WHERE id = ?", job)
            await asyncio.sleep(0.02)
        each = (site.processor_ms("scheduler") - used) / BLOCKED
        rows.append(await site.cycle_row(of, "p99 <= 25" if of == what else ""))
        rows.append(row(f"{of}: the scheduler's processor time by job", [each], "ms", ""))
    return rows


def lock_waits(database: Path) -> list[float]:
    """Milliseconds that 20-row commits wait for the lock, with a separate connection and table."""
    lock, waits = FileLock(database.with_name(database.name + ".lock")), []
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for place in range(LOCKS):
            begun = time.perf_counter()
            with lock.held():
                waits.append((time.perf_counter() - begun) * 1000)
                connection.execute("BEGIN IMMEDIATE")
                if not place:
                    connection.execute("CREATE TABLE IF NOT EXISTS bench_scale (id INTEGER PRIMARY KEY, text TEXT)")
                connection.executemany("INSERT INTO bench_scale (text) VALUES (?)", [("x" * 100,)] * 20)
                connection.execute("COMMIT")
            time.sleep(0.005)
        with lock.held():
            connection.execute("DROP TABLE bench_scale")
    lock.close()
    return waits


def queries(site: Site) -> list[Row]:
    """The usual queries, in SQL and on the command line."""
    user = '(SELECT "user" FROM jobs GROUP BY 1 ORDER BY abs(count(*) - 200) LIMIT 1)'
    [(name,)] = site.reader.execute(f"SELECT {user}").fetchall()
    asked: list[tuple[str, list[object], str]] = [
        ("SELECT * FROM job_priority WHERE id = ?", [JOBS // 20], "<= 2"),
        ("SELECT * FROM queue_head ORDER BY rank LIMIT 100", [], "<= 10"),
        ('SELECT * FROM job_priority WHERE "user" = ?', [name], "<= 300"),
    ]
    rows = []
    for sql, values, target in asked:
        times = []
        for _ in range(QUERIES):
            begun = time.perf_counter()
            site.reader.execute(sql, values).fetchall()
            times.append((time.perf_counter() - begun) * 1000)
        rows.append(row(sql, times, "ms", target))
    database = str(site.database)
    rows.append(command("rankd prio -u USER", ["prio", "-u", str(name), "--db", database], "<= 450"))
    rows.append(command("rankd --help", ["--help"], "<= 150"))
    return rows


def command(what: str, words: list[str], target: str) -> Row:
    """A command, including the start of its process."""
    rankd, times = str(Path(sys.executable).with_name("rankd")), []
    for _ in range(QUERIES):
        begun = time.perf_counter()
        subprocess.run([rankd, *words], check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - begun) * 1000)
    return row(what, times, "ms", target)


async def started(site: Site, begun: float) -> list[Row]:
    """The time until the first generation of this run is visible, and until a first probe is allocated."""
    await site.until("SELECT max(number) FROM generation WHERE made_at > ?", begun)
    ranked_s = time.time() - begun
    job = await site.submit()
    await site.until("SELECT nodelist FROM job WHERE id = ? AND state <> 'pending'", job)
    return [
        row("start-up until ranked", [ranked_s], "s", "< 10"),
        row("start-up until a job is allocated", [time.time() - begun], "s", "< 10"),
    ]


def memory(site: Site, n_jobs: int) -> list[Row]:
    """The memory of all services and of each one; for the two that keep jobs, also per pending job."""
    used = site.memory()
    most = {name: highest / 2**20 for name, (_, highest) in used.items()}
    keeping = sum(now for name, (now, _) in used.items() if name in ("prioritizer", "scheduler"))
    rows = [row("memory at most, all services", [sum(most.values())], "MB", "< 1500")]
    rows += [row(f"memory at most, {name}", [value], "MB", "") for name, value in sorted(most.items())]
    return [*rows, row("memory per pending job", [keeping / n_jobs], "bytes", "")]


async def as_it_comes(site: Site, begun: float, n_jobs: int) -> list[Row]:
    """A run with passes every five seconds."""
    rows = await started(site, begun)
    rows += await visible(site, "one submission until visible", "<= 20, p99 <= 60")
    rows += queries(site)
    rows += await cycles(site, "cycle that starts a job", "p99 <= 25")
    rows.append(row("full pass with commit, beside probes and queries", site.full_passes(begun)[1:], "s", ""))
    alone = time.time()
    await site.until(
        "SELECT nullif(count(*) > ?, 0) FROM generation WHERE kind = 'full' AND ranked_at > ?", PASSES, alone
    )
    rows.append(row("full pass with commit", site.full_passes(alone)[1:], "s", "<= 1.0"))
    return rows + memory(site, n_jobs)


async def without_pause(site: Site, begun: float) -> list[Row]:
    """A run with pass after pass."""
    await started(site, begun)
    rows = await visible(site, "one submission until visible, passes without pause", "<= 20, p99 <= 60")
    rows += await cycles(site, "cycle that starts a job, passes without pause", "p99 <= 25")
    waits = await asyncio.to_thread(lock_waits, site.database)
    rows.append(row("lock wait of a 20-row commit, passes without pause", waits, "ms", "p99 <= 10"))
    passes = site.full_passes(begun)[1:]
    rows.append(row("full pass beside all this", passes, "s", ""))
    coupled = statistics.median(passes) * 1000 + rows[1]["median"]
    return [*rows, row("a pass and then a cycle, as a coupled scheduler would (sum)", [coupled], "ms", "")]


async def few(site: Site, begun: float) -> list[Row]:
    """The same with a nearly empty queue."""
    await started(site, begun)
    return await cycles(site, f"cycle that starts a job, passes without pause, {FEW_JOBS} pending", "")


async def full(site: Site, begun: float, what: str) -> list[Row]:
    """A run with passes every five seconds and a full node."""
    await started(site, begun)
    return await blocked(site, f"cycle, cluster full, nothing to start, {what}")


async def start_ups(directory: Path, config: Path) -> list[Row]:
    """Several starts, in which both services load at the same time."""
    found: dict[str, Row] = {}
    times: dict[str, list[float]] = {}
    for _ in range(STARTS):
        begun = time.time()
        for one in await with_site(directory, config, lambda site, begun=begun: started(site, begun)):
            found[one["what"]] = one
            times.setdefault(one["what"], []).append(one["median"])
    return [row(what, times[what], one["unit"], one["target"]) for what, one in found.items()]


async def submissions() -> list[Row]:
    """Rates on a separate rankd: what the intake accepts while no job can start."""
    rows = []
    for one in await bench_submission.measured():
        target = ">= 4,000" if one["p99 ms"] else ">= 30,000"
        rows.append(
            {"what": one["what"], "median": one["jobs/s"], "p99": one["worst"], "worst": one["worst"]}
            | {"n": bench_submission.ROUNDS, "unit": "jobs/s", "target": target}
        )
        if one["p99 ms"]:
            rows.append(
                {"what": f"{one['what']}: each", "median": one["p50 ms"], "p99": one["p99 ms"], "worst": one["p99 ms"]}
                | {"n": bench_submission.SINGLES, "unit": "ms", "target": "p99 <= 40"}
            )
        rows.append(row(f"{one['what']}: events behind at the end", [one["event lag s"]], "s", "< 2"))
    return rows


async def run(directory: Path, n_jobs: int) -> list[Row]:
    """Run everything."""
    usual, hasty = write_config(directory / "usual"), write_config(directory / "hasty", period_s=0.05)
    narrow = write_config(directory / "narrow", fanout=FEW_LEAVES)
    many, less, together = directory / "many", directory / "few", directory / "together"
    for place, config, number in ((many, usual, n_jobs), (less, usual, FEW_JOBS), (together, narrow, n_jobs)):
        place.mkdir()
        print(f"making a database with {number} pending jobs")
        await make_database(place / "rankd.db", config, number)
    rows = await start_ups(many, usual)
    begun = time.time()
    as_they_come = await with_site(many, usual, lambda site: as_it_comes(site, begun, n_jobs))
    rows += [one for one in as_they_come if not one["what"].startswith("start-up")]
    again = time.time()
    rows += await with_site(many, hasty, lambda site: without_pause(site, again))
    third = time.time()
    rows += await with_site(less, hasty, lambda site: few(site, third))
    for place, config, queue, what in (
        (many, usual, QUEUE, "2,000 leaves"),
        (together, narrow, QUEUE_OF_FEW, "20 leaves"),
    ):
        again = time.time()
        rows += await with_site(place, config, lambda site, what=what, begun=again: full(site, begun, what), queue)
    return rows + await submissions()


def main() -> None:
    n_jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="rankd-scale-") as directory:
        rows = asyncio.run(run(Path(directory), n_jobs))
    conditions = (
        f"{n_jobs} pending jobs, 5,000 associations, 2,000 leaf queues in 4 levels; nats-server (sync always), intake,"
        f" prioritizer, scheduler and relay on {os.cpu_count()} cores that others use as well (load {load:.1f})"
    )
    report("scale", conditions, rows)


if __name__ == "__main__":
    main()
