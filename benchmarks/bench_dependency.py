"""Dependencies: what an event costs beside a chain of waiting jobs, and beside many jobs of one name.

The prioritizer's memory follows a real database, without other services. Each event is the end of the first job of a
chain of `afterany`, or of singletons of one name: the change is read, the next job is looked at and released.
Milliseconds per event, the median of some, beside a short and a long chain. They have to be about the same. Also how
long it takes to cancel a whole chain that can never start.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import report

from rankd.config.configuration import load_configuration
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel
from rankd.core.model.job import AcceptedJob, Dependency, JobRequest
from rankd.mirror.job_table import JobTable, Membership
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.role import ROLE
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.feed.job import changed_jobs, load_jobs
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.schema.migration import upgrade

LENGTHS = (1_000, 100_000)
EVENTS = 200
PART = 5_000
NOW = 1_700_000_000.0
ROOT = Submitter("alice", privileged=True)


def a_job(kind: str, before: int | None) -> AcceptedJob:
    """A job that waits for the one before it."""
    waits = [] if before is None else [Dependency(type=kind, job=None if kind == "singleton" else before)]
    request = JobRequest(command=["true"], name="chain", depends_on=waits)
    return AcceptedJob(
        user="alice", account="default", queue="root.default", qos="normal", partition="default", class_value=0,
        priority_class=None, preemption_policy="Never", urgency=16, held=False, nodes=1, min_nodes=1,
        resources={"vcore": 1000}, request=request,
    )  # fmt: skip


class Chain:
    """A database with a chain of jobs, and the memory that follows it."""

    def __init__(self, database: Database, *, cancels: bool = False) -> None:
        self.database = database
        self.jobs = JobTable()
        self.eligibility = Eligibility(self.jobs, database, lambda: cancels)

    async def fill(self, kind: str, length: int) -> None:
        """Insert the jobs; their ids begin with 1."""
        configuration = load_configuration(Path(__file__).parents[1] / "config")
        catalog = await self.database.write(lambda c: sync_catalog(c, configuration, NOW))
        for start in range(1, length + 1, PART):
            ids = range(start, min(start + PART, length + 1))
            new = [NewJob(accepted=a_job(kind, n - 1 or None), actor="alice", at=NOW) for n in ids]
            await self.database.write(lambda c, new=new: insert_jobs(c, new, catalog))
        self.membership = Membership(dict.fromkeys(catalog.queues.values(), 0), frozenset())
        self.jobs.load(await self.database.read(load_jobs), self.membership)

    async def settle(self) -> None:
        """Look at what has changed until nothing is left."""
        while True:
            found = await self.database.read(lambda c: changed_jobs(c, self.jobs.revision, self.jobs.shapes))
            self.jobs.apply(found, self.membership)
            if not await self.eligibility.release(NOW) and not found.jobs:
                return

    async def end(self, job: int) -> None:
        """End a job."""
        await self.database.write(lambda c: act(c, [job], ROOT, NOW, cancel))


async def per_event_ms(kind: str, length: int) -> float:
    """The median of some events beside a chain of this length."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as directory:
        async with open_database(str(Path(directory) / "rankd.db"), durable=False) as database:
            chain = await prepared(database, kind, length)
            took = []
            for job in range(1, EVENTS + 1):
                await chain.end(job)
                begun = time.perf_counter()
                await chain.settle()
                took.append(1000 * (time.perf_counter() - begun))
    return statistics.median(took)


async def cancelled_s(length: int) -> float:
    """Seconds until a whole chain that can never start is cancelled."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as directory:
        async with open_database(str(Path(directory) / "rankd.db"), durable=False) as database:
            chain = await prepared(database, "afterok", length, cancels=True)
            await chain.end(1)
            begun = time.perf_counter()
            await chain.settle()
            return time.perf_counter() - begun


async def prepared(database: Database, kind: str, length: int, *, cancels: bool = False) -> Chain:
    """A chain at rest."""
    await upgrade(database)
    await database.take_role(ROLE, NOW)
    chain = Chain(database, cancels=cancels)
    await chain.fill(kind, length)
    await chain.settle()
    return chain


async def run() -> None:
    """Measure all."""
    rows: list[dict[str, Any]] = []
    for length in LENGTHS:
        row: dict[str, Any] = {"jobs": length}
        for kind in ("afterany", "singleton"):
            row[f"{kind}, ms per event"] = await per_event_ms(kind, length)
        rows.append(row | {"chain cancelled, s": await cancelled_s(length)})
    report("dependency", f"the median of {EVENTS} events, by the number of waiting jobs", rows)


if __name__ == "__main__":
    asyncio.run(run())
