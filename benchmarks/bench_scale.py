"""A million pending jobs: what the design promises of them, measured on real processes, broker, file and commits.

5,000 associations, 2,000 leaf queues in 4 levels, 2,000 shapes. Runs of `rankd up`: one as it comes, with the command
line beside it, one whose full passes follow each other without pause, the latter with a thousand jobs as well for
comparison. None of the jobs fits the one node there is, which offers a resource of its
own; probes ask for that, so that each one is submitted, ranked and allocated past all the others. In two more runs,
with 2,000 leaves and with 20, another node comes, which the first jobs fill, and jobs are submitted that can't start.
`bench_scale.py 100000` takes less.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nats
from large_site import make_database, write_config
from measure import machine, percentile, report

from rankd.store.lock import FileLock

JOBS = 1_000_000
FEW_JOBS = 1_000
PROBES = 150
BLOCKED = 400
PROBE = {"command": ["true"], "user": "u0-0", "resources": {"probe": 1}}
QUEUE, QUEUE_OF_FEW = "root.q0.q0.q0", "root.q0.q0"
NODE, FULL_NODE = "probe-node", "full-node"
FEW_LEAVES = (2, 10)
QUERIES = 7
PASSES = 5
LOCKS = 1_000
PATIENCE_S = 120.0

Row = dict[str, Any]


def row(what: str, values: list[float], unit: str, target: str) -> Row:
    """Median, p99 and the worst of several."""
    return {
        "what": what,
        "median": statistics.median(values),
        "p99": percentile(values, 0.99),
        "worst": max(values),
        "n": len(values),
        "unit": unit,
        "target": target,
    }


class Site:
    """A running rankd: a NATS client, the probes' node, and the database as anybody reads it."""

    def __init__(self, client: nats.NATS, database: Path, pid: int, queue: str) -> None:
        self.client = client
        self.queue = queue
        self.database = database
        self.pid = pid
        self.reader = sqlite3.connect(database, isolation_level=None)
        self.reader.execute("PRAGMA query_only = ON")

    async def join(self) -> None:
        """The node that only probes fit."""
        body = json.dumps({"resources": {"probe": 10**6}, "agent": NODE}).encode()
        await self.client.request(f"rankd.v1.node.{NODE}.register", body, timeout=PATIENCE_S)

    async def fill(self) -> None:
        """One more node, and wait until the first jobs of the queue have taken all of it."""
        body = json.dumps({"resources": {"vcore": 64, "memory": "4Ti"}, "agent": NODE}).encode()
        await self.client.request(f"rankd.v1.node.{FULL_NODE}.register", body, timeout=PATIENCE_S)
        await self.until("SELECT nullif(count(*), 0) FROM allocations WHERE nodes LIKE ?", f"%{FULL_NODE}%")
        await self.until("SELECT reason FROM wait_reasons WHERE reason = 'resources' LIMIT 1")

    async def stay(self) -> None:
        """Heartbeats, for ever."""
        while True:
            await asyncio.sleep(5)
            for node in (NODE, FULL_NODE):
                body = json.dumps({"nodes": [node]}).encode()
                await self.client.request(f"rankd.v1.node.{node}.heartbeat", body, timeout=PATIENCE_S)

    async def submit(self, what: Mapping[str, object] = MappingProxyType({})) -> int:
        """One probe, or a job that asks for something else; returns its id once it is durable."""
        body = json.dumps(PROBE | {"queue": self.queue} | dict(what)).encode()
        reply = await self.client.request("rankd.v1.user.u0-0.job.submit", body, timeout=PATIENCE_S)
        answer = json.loads(reply.data)
        if "id" not in answer:
            raise RuntimeError(reply.data)
        return int(answer["id"])

    async def until(self, sql: str, *values: object) -> Any:
        """What the query gives once it gives something but null."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = self.reader.execute(sql, values).fetchone()
            if found is not None and found[0] is not None:
                return found[0]
            await asyncio.sleep(0.001)
        raise TimeoutError(sql)

    def full_passes(self, since: float) -> list[float]:
        """Seconds from the beginning of each full pass until it was visible."""
        sql = "SELECT made_at - ranked_at FROM generation WHERE kind = 'full' AND ranked_at > ?"
        return [seconds for (seconds,) in self.reader.execute(sql, (since,))]

    async def cycle_durations(self) -> dict[str, float]:
        """Of the scheduler's latest cycles, in milliseconds."""
        reply = await self.client.request("rankd.v1.user.root.diag.show", b"{}", timeout=PATIENCE_S)
        found = json.loads(reply.data)["scheduler"]["durations"]["cycle"]
        return {key: value if key == "n" else value * 1000 for key, value in found.items()}

    def processor_ms(self, name: str) -> float:
        """What one of the services has had of the processor since it began, all its threads together."""
        spent = 0
        for child in children(self.pid):
            if _name(child) == name:
                tasks = Path(f"/proc/{child}/task").iterdir()
                spent += sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        return spent / 1e6

    def memory(self) -> dict[str, tuple[int, int]]:
        """Bytes now and at most, by process."""
        found = {}
        for child in children(self.pid):
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
            found[_name(child)] = tuple(int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        return found


def children(pid: int) -> Iterator[int]:
    """The processes that it has started."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            stat = (entry / "stat").read_text()
            if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
                yield int(entry.name)


def _name(pid: int) -> str:
    """A service's, or a program's."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[3].decode() if len(words) > 3 and words[2] == b"rankd" else Path(words[0].decode()).name


@contextmanager
def rankd_up(directory: Path, config: Path) -> Iterator[dict[str, Any]]:
    """A `rankd up` on the prepared database."""
    with machine("--config", str(config), "--no-local-agent", directory=directory) as up:
        yield up


async def with_site(
    directory: Path, config: Path, measure: Callable[[Site], Awaitable[list[Row]]], queue: str = QUEUE
) -> list[Row]:
    """What ``measure`` finds on a rankd that has started on this directory."""
    with rankd_up(directory, config) as up:
        client = await nats.connect(up["nats"])
        site = Site(client, Path(up["db"]), up["pid"], queue)
        await site.join()
        async with asyncio.TaskGroup() as group:
            staying = group.create_task(site.stay())
            rows = await measure(site)
            staying.cancel()
        await client.close()
        site.reader.close()
        return rows


async def visible(site: Site, what: str, target: str) -> list[Row]:
    """Probes one after the other: from sending each until its rank is to be read."""
    times = []
    ranked = (
        "SELECT rank FROM job_priority WHERE id = ? UNION ALL SELECT 0 FROM jobs WHERE id = ? AND state <> 'pending'"
    )
    for _ in range(PROBES):
        begun = time.perf_counter()
        job = await site.submit()
        await site.until(ranked, job, job)
        times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.03)
    return [row(what, times, "ms", target)]


async def cycles(site: Site, what: str, target: str) -> list[Row]:
    """From the instant at which a generation that brings a probe was visible until its allocation comes.

    That follows the commit. By the clock of the machine: the event itself may be here after the allocation.
    """
    times: list[float] = []
    ranked: asyncio.Queue[float] = asyncio.Queue()
    allocated: asyncio.Queue[tuple[int, float]] = asyncio.Queue()

    async def on_ranking(message: Any) -> None:
        event = json.loads(message.data)
        if event["new_jobs"]:
            ranked.put_nowait(event["at"] if event["kind"] == "delta" else time.time())

    async def on_allocation(message: Any) -> None:
        for start in json.loads(message.data).get("starts", ()):
            allocated.put_nowait((start["job"], time.time()))

    await site.client.subscribe("rankd.v1.event.ranking", cb=on_ranking)
    await site.client.subscribe(f"rankd.v1.node.{NODE}.allocation", cb=on_allocation)
    for _ in range(PROBES):
        job = await site.submit()
        begun = await asyncio.wait_for(ranked.get(), PATIENCE_S)
        found = 0
        while found != job:  # one of an earlier run may come late
            found, at = await asyncio.wait_for(allocated.get(), PATIENCE_S)
        times.append((at - begun) * 1000)
        await asyncio.sleep(0.02)
        while not ranked.empty():
            ranked.get_nowait()
    return [row(what, times, "ms", target)]


async def blocked(site: Site, what: str) -> list[Row]:
    """Jobs that can't start on a full cluster: all cycles of a scheduler, from the trigger received until committed.

    Each job asks for something else, so that each has a reason to be committed. The scheduler's processor time is
    that of all it does meanwhile, by the number of jobs.
    """
    await site.fill()
    used = site.processor_ms("scheduler")
    for place in range(BLOCKED):
        job = await site.submit({"resources": {"vcore": 1 + place % 8, "memory": 2**30 + place}})
        await site.until("SELECT nullif(reason, '') FROM job_priority WHERE id = ?", job)
        await asyncio.sleep(0.02)
    each = (site.processor_ms("scheduler") - used) / BLOCKED
    took = await site.cycle_durations()
    return [
        {"what": what}
        | {key: took[key] for key in ("median", "p99", "worst", "n")}
        | {"unit": "ms", "target": "p99 <= 25"},
        row(f"{what}: the scheduler's processor time by job", [each], "ms", ""),
    ]


def lock_waits(database: Path) -> list[float]:
    """Milliseconds that 20-row commits wait for the lock; own connection, own table."""
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
    """The usual questions, in SQL and on the command line."""
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
    """A command with its process's start."""
    rankd, times = str(Path(sys.executable).with_name("rankd")), []
    for _ in range(QUERIES):
        begun = time.perf_counter()
        subprocess.run([rankd, *words], check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - begun) * 1000)
    return row(what, times, "ms", target)


async def started(site: Site, begun: float) -> list[Row]:
    """Until the first generation of this run is visible, and until the scheduler has allocated a first probe."""
    await site.until("SELECT max(number) FROM generation WHERE made_at > ?", begun)
    ranked_s = time.time() - begun
    job = await site.submit()
    await site.until("SELECT nodelist FROM job WHERE id = ? AND state <> 'pending'", job)
    return [
        row("start-up until ranked", [ranked_s], "s", "< 10"),
        row("start-up until a job is allocated", [time.time() - begun], "s", "< 10"),
    ]


def memory(site: Site, n_jobs: int) -> list[Row]:
    """Of all services together and each by itself, and of the two that keep jobs per pending job."""
    used = site.memory()
    most = {name: highest / 2**20 for name, (_, highest) in used.items()}
    keeping = sum(now for name, (now, _) in used.items() if name in ("prioritizer", "scheduler"))
    rows = [row("memory at most, all services", [sum(most.values())], "MB", "< 1500")]
    rows += [row(f"memory at most, {name}", [value], "MB", "") for name, value in sorted(most.items())]
    return [*rows, row("memory per pending job", [keeping / n_jobs], "bytes", "")]


async def as_it_comes(site: Site, begun: float, n_jobs: int) -> list[Row]:
    """Passes every five seconds."""
    rows = await started(site, begun)
    rows += await visible(site, "one submission until visible", "<= 20, p99 <= 60")
    rows += queries(site)
    rows += await cycles(site, "cycle, trigger to allocation", "p99 <= 25")
    await site.until(
        "SELECT nullif(count(*) > ?, 0) FROM generation WHERE kind = 'full' AND ranked_at > ?", PASSES, begun
    )
    rows += [row("full pass with commit", site.full_passes(begun)[1:], "s", "<= 1.0")]
    return rows + memory(site, n_jobs)


async def without_pause(site: Site, begun: float) -> list[Row]:
    """Pass after pass."""
    await started(site, begun)
    rows = await visible(site, "one submission until visible, passes without pause", "<= 20, p99 <= 60")
    rows += await cycles(site, "cycle, trigger to allocation, passes without pause", "p99 <= 25")
    waits = await asyncio.to_thread(lock_waits, site.database)
    rows.append(row("lock wait of a 20-row commit, passes without pause", waits, "ms", "p99 <= 10"))
    passes = site.full_passes(begun)[1:]
    rows.append(row("full pass beside all this", passes, "s", ""))
    coupled = statistics.median(passes) * 1000 + rows[1]["median"]
    return [*rows, row("a pass and then a cycle, as a coupled scheduler would (sum)", [coupled], "ms", "")]


async def few(site: Site, begun: float) -> list[Row]:
    """The same with a queue that is nearly empty."""
    await started(site, begun)
    return await cycles(site, f"cycle with {FEW_JOBS} pending", "")


async def full(site: Site, begun: float, what: str) -> list[Row]:
    """Passes every five seconds, and a node that is full."""
    await started(site, begun)
    return await blocked(site, f"cycle, cluster full, nothing to start, {what}")


async def run(directory: Path, n_jobs: int) -> list[Row]:
    """All of it."""
    usual, hasty = write_config(directory / "usual"), write_config(directory / "hasty", period_s=0.05)
    narrow = write_config(directory / "narrow", fanout=FEW_LEAVES)
    many, less, together = directory / "many", directory / "few", directory / "together"
    for place, config, number in ((many, usual, n_jobs), (less, usual, FEW_JOBS), (together, narrow, n_jobs)):
        place.mkdir()
        print(f"making a database with {number} pending jobs")
        await make_database(place / "rankd.db", config, number)
    begun = time.time()
    rows = await with_site(many, usual, lambda site: as_it_comes(site, begun, n_jobs))
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
    return rows


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
