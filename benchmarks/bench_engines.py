"""PostgreSQL against SQLite: two whole rankds on the same machine, measured in turn, with durable commits.

For each database: single submissions with 64 in flight, batches of 1,000 jobs, one submission until the views show its
rank, and what the services say of their passes and cycles once all jobs wait. ``--jobs 1000000`` fills a large queue
(ten minutes). The PostgreSQL server is one of its own, with its defaults, and with fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import nats
import uvloop
from bench_submission import ALIKE, BATCH, DIFFERENT, JOB, batches, singles
from measure import connected, machine, report

from rankd.services.up.postgres import url_in
from rankd.store.engine.postgres_program import program_folders
from rankd.store.engine.postgres_start import has_answered, make_database
from rankd.store.engine.reading import open_for_reading

SINGLES = 500
VISIBLE = 10
LOOK_EVERY_S = 0.005


def ordinary() -> dict[str, Any]:
    """An ordinary user for the server, which root can't run."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def programs() -> Path:
    """The best programs that this user can run."""
    for folder in program_folders("initdb"):
        if subprocess.run(["test", "-x", folder / "initdb"], check=False, **ordinary()).returncode == 0:
            return folder
    raise SystemExit("no PostgreSQL that an ordinary user can run")


@contextmanager
def server() -> Iterator[str]:
    """The URL of a new database."""
    directory, folder = Path(tempfile.mkdtemp(prefix="rankd-bench-pg-", dir="/tmp")), programs()
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody", "nogroup")
    data = directory / "data"
    make = [folder / "initdb", "-D", data, "-U", "rankd", "-A", "trust", "-E", "UTF8", "--no-locale"]
    subprocess.run(make, check=True, capture_output=True, **ordinary())
    words = [folder / "postgres", "-D", data, f"-cunix_socket_directories={directory}", "-clisten_addresses="]
    process = subprocess.Popen([*words, "-cmax_connections=200"], stderr=subprocess.DEVNULL, **ordinary())
    try:
        while not has_answered(url_in(directory, "postgres")):
            time.sleep(0.05)
        make_database(url_in(directory, "postgres"), "rankd")
        yield url_in(directory)
    finally:
        process.send_signal(2)
        process.wait()
        shutil.rmtree(directory)


async def until_visible(client: nats.NATS, database: Path | str) -> float:
    """Seconds from sending a submission until the view has the job's rank."""
    begin = time.perf_counter()
    reply = await client.request("rankd.v1.user.user0.job.submit", json.dumps(JOB).encode(), timeout=60)
    job = json.loads(reply.data)["id"]
    while True:
        with closing(open_for_reading(database)) as connection:
            row = connection.execute("SELECT rank FROM job_priority WHERE id = ?", (job,)).fetchone()
        if row is not None and row[0] is not None:
            return time.perf_counter() - begin
        await asyncio.sleep(LOOK_EVERY_S)


class Site:
    """One of the two, and what was measured of it."""

    def __init__(self, name: str, up: dict[str, Any]) -> None:
        self.name = name
        self.database: Path | str = up["db"] if "://" in up["db"] else Path(up["db"])
        self.up = up
        self.client: nats.NATS
        self.found: dict[str, list[float]] = {}

    def note(self, what: str, value: float) -> None:
        """Add a measured value."""
        self.found.setdefault(what, []).append(value)

    async def round(self) -> None:
        """One turn."""
        took, _ = await singles(self.client, SINGLES)
        self.note("single jobs/s", SINGLES / took)
        for what, jobs in (("batches alike jobs/s", ALIKE), ("batches different jobs/s", DIFFERENT)):
            self.note(what, 4 * BATCH / await batches(self.client, 4, jobs))
        for _ in range(VISIBLE):
            self.note("one submission until visible ms", 1000 * await until_visible(self.client, self.database))

    async def fill(self, jobs: int) -> None:
        """Submit so many more, and wait for some passes over them."""
        await batches(self.client, max(1, jobs // BATCH), DIFFERENT)
        for _ in range(3):
            await until_visible(self.client, self.database)
            await asyncio.sleep(6)

    def look(self, directory: Path) -> None:
        """What the services say of their last passes and cycles."""
        command = [sys.executable, "-m", "rankd", "diag", "--json", "--dir", str(directory)]
        said = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
        self.found["diag"] = [said]  # type: ignore[list-item]


async def measured(jobs: int, rounds: int) -> list[dict[str, Any]]:
    """Rows: one per figure, with both databases."""
    with ExitStack() as stack:
        url = stack.enter_context(server())
        places = {name: Path(stack.enter_context(tempfile.TemporaryDirectory())) for name in ("SQLite", "PostgreSQL")}
        sites = []
        for name, more in (("SQLite", ()), ("PostgreSQL", ("--db", url))):
            up = stack.enter_context(machine("--simulate", "1", *more, directory=places[name]))
            sites.append(Site(name, up))
        for site in sites:
            site.client = await connected(site.up)
            await singles(site.client, 100)
        for number in range(rounds):
            for site in sites if number % 2 == 0 else reversed(sites):
                await site.round()
        for site in sites:
            await site.fill(jobs)
            site.look(places[site.name])
        for site in sites:
            await site.client.close()
    return rows(sites)


def rows(sites: list[Site]) -> list[dict[str, Any]]:
    """The medians, and how PostgreSQL compares with SQLite."""
    of_diag = [phases(site.found.pop("diag")[0]) for site in sites]
    found = [{name: statistics.median(values) for name, values in site.found.items()} for site in sites]
    one, other = (values | more for values, more in zip(found, of_diag, strict=True))
    return [
        {"what": name, "SQLite": one[name], "PostgreSQL": other[name], "ratio": other[name] / one[name]}
        for name in one
        if one[name] and name in other
    ]


def phases(said: Any) -> dict[str, float]:
    """Milliseconds of passes and cycles."""
    wanted = {"full.rank": "median", "full.visible": "median", "delta.visible": "median", "cycle": "p99"}
    found = {}
    for service in ("prioritizer", "scheduler"):
        for name, values in said[service]["durations"].items():
            if name in wanted:
                found[f"{service} {name} {wanted[name]} ms"] = 1000 * values[wanted[name]]
    return found


async def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs that wait when passes are measured")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    load = os.getloadavg()
    title = f"{given.rounds} rounds in turn, then {given.jobs:,} waiting jobs; load before {load[0]:.1f}"
    report("engines", title, await measured(given.jobs, given.rounds))


if __name__ == "__main__":
    uvloop.run(main())
