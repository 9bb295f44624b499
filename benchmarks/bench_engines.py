"""PostgreSQL against SQLite: rankds that are alike on the same machine, with durable commits, measured in turn.

Two sites that run side by side first: single submissions with 64 in flight, and batches of 1,000 jobs. Then a million
pending jobs (``--jobs``), in a file and, by ``rankd db copy``, in a server. On each of the two, a site runs alone: one
submission until its rank can be read, cycles that start a job, and full passes with their commits. The PostgreSQL
server is one of its own, with its defaults and with fsync. Each row says how PostgreSQL differs, and the target.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from bench_scale import cycles, visible
from bench_submission import ALIKE, BATCH, DIFFERENT, batches, singles
from large_site import make_database, write_config
from measure import connected, machine, report
from scale_site import QUEUE, Row, Site, with_site

from rankd.services.up.postgres import url_in
from rankd.store.engine.postgres_program import program_folders
from rankd.store.engine.postgres_start import has_answered
from rankd.store.engine.postgres_start import make_database as make_database_of_server

ENGINES = ("SQLite", "PostgreSQL")
SINGLES = 2_000
PROBES, CYCLES, PASSES = 300, 150, 4


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
        make_database_of_server(url_in(directory, "postgres"), "rankd")
        yield url_in(directory)
    finally:
        process.send_signal(2)
        process.wait()
        shutil.rmtree(directory)


class Pair:
    """One figure of both."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[float]]] = {}

    def note(self, what: str, engine: str, value: float) -> None:
        """Add a measured value."""
        self.found.setdefault(what, {}).setdefault(engine, []).append(value)

    def rows(self) -> list[dict[str, Any]]:
        """The medians, and how PostgreSQL compares with SQLite."""
        return [
            self._row(what, *(statistics.median(values[engine]) for engine in ENGINES))
            for what, values in self.found.items()
        ]

    def _row(self, what: str, one: float, other: float) -> dict[str, Any]:
        target = ">= 0.5" if what.endswith("/s") else "<= 2"
        return {"what": what, "SQLite": one, "PostgreSQL": other, "ratio": other / one, "target": target}


async def accepting(pair: Pair, url: str, rounds: int) -> None:
    """Rates of two sites that are empty at first, in turn."""
    with ExitStack() as stack:
        clients = {}
        for engine, more in zip(ENGINES, ((), ("--db", url)), strict=True):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            up = stack.enter_context(machine("--no-local-agent", "--no-web", *more, directory=directory))
            clients[engine] = await connected(up)
            await singles(clients[engine], 100)
        for number in range(rounds):
            for engine in ENGINES if number % 2 == 0 else reversed(ENGINES):
                took, _ = await singles(clients[engine], SINGLES)
                pair.note("single submissions, 64 in flight, jobs/s", engine, SINGLES / took)
                for what, jobs in (("alike", ALIKE), ("different", DIFFERENT)):
                    took = await batches(clients[engine], 4, jobs)
                    pair.note(f"batches of 1,000 {what} jobs, jobs/s", engine, 4 * BATCH / took)
        for client in clients.values():
            await client.close()


async def ranking(pair: Pair, url: str, jobs: int) -> None:
    """Passes and cycles over many jobs, of one site after the other."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as temporary:
        config, file = write_config(Path(temporary) / "config"), Path(temporary) / "SQLite" / "rankd.db"
        file.parent.mkdir()
        await make_database(file, config, jobs)
        copy = [sys.executable, "-m", "rankd", "db", "copy", "--from", str(file), "--to", url]
        subprocess.run(copy, check=True, stdout=subprocess.DEVNULL)  # noqa: ASYNC221 - nothing else runs
        for engine, more in zip(ENGINES, ((), ("--db", url)), strict=True):
            measure = partial(of_engine, pair, engine)
            await with_site(Path(temporary) / engine, config, measure, QUEUE, "--no-web", *more)


async def of_engine(pair: Pair, engine: str, site: Site) -> list[Row]:
    """One site's figures."""
    begun = time.time()
    await site.until("SELECT max(number) FROM generation WHERE made_at > ?", begun)
    [seen] = await visible(site, "", "", PROBES)
    pair.note("one submission until its rank can be read, median, ms", engine, seen["median"])
    cycle, *_ = await cycles(site, "", "", CYCLES)
    pair.note("a cycle that starts a job, p99, ms", engine, cycle["p99"])
    alone = time.time()
    enough = "SELECT CASE WHEN count(*) > ? THEN 1 END FROM generation WHERE kind = 'full' AND ranked_at > ?"
    await site.until(enough, PASSES, alone)
    pair.note("a full pass with its commit, ms", engine, 1000 * statistics.median(site.full_passes(alone)[1:]))
    return []


async def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs that wait when passes are measured")
    parser.add_argument("--rounds", type=int, default=3, help="how often rates are measured")
    given = parser.parse_args()
    load, pair = os.getloadavg(), Pair()
    with server() as url:
        await accepting(pair, url, given.rounds)
    with server() as url:
        await ranking(pair, url, given.jobs)
    title = f"{given.rounds} rounds of rates in turn, then {given.jobs:,} waiting jobs; load before {load[0]:.1f}"
    report("engines", title, pair.rows())


if __name__ == "__main__":
    uvloop.run(main())
