"""What the services' tests stand on: a configuration, a database, a raw NATS client, and services that run or step."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import builder
from watch import PATIENCE_S

from rankd.bus.client import PatientClient
from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.bus.stream import ensure_streams
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import Decide
from rankd.core.errors import Unavailable
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.service import Prioritizer
from rankd.services.scheduler.outbox import BusOutbox
from rankd.services.scheduler.scheduler import Scheduler
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.database import Database
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.record.node import register_node, set_state
from rankd.store.record.report import take_reports
from rankd.wire.message import NodeRegistration, Report

ASK_EVERY_S = 0.01
NOW = builder.NOW
ROOT = Submitter("root", privileged=True)

CONFIG = {
    "rankd.toml": """
default_qos = "normal"
[priority]
period_s = 0.3
[node]
lost_after_s = 60
[admission]
unknown_association = "default"
[[qos]]
name = "normal"
[[qos]]
name = "high"
priority = 100
""",
    "accounts.yaml": "accounts: [{name: physics, users: [{name: alice}, {name: bob}, {name: first.last}]}]\n",
    "queues.yaml": """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: default
          - {name: small, resources: {max: {vcore: "2"}}}
""",
}


def write_config(directory: Path, **settings: str) -> Path:
    """A configuration directory; ``settings`` are other values for those that rankd.toml has."""
    directory.mkdir(exist_ok=True)
    for name, text in CONFIG.items():
        for setting, value in settings.items():
            text = re.sub(rf"^{setting} = .*$", f"{setting} = {value}", text, flags=re.MULTILINE)  # noqa: PLW2901
        (directory / name).write_text(text)
    return directory


def rows(path: Path, query: str, *values: object) -> list[tuple]:
    """What any SQL client sees."""
    connection = sqlite3.connect(path, timeout=PATIENCE_S)
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


class Reply(NamedTuple):
    """A decoded answer; ``status`` and ``error`` are its error headers."""

    body: dict
    status: int | None
    error: str | None


class Client:
    """A NATS client: what any program of a user can do."""

    def __init__(self, connection: PatientClient) -> None:
        self.connection = connection
        self._news = asyncio.Event()

    async def ask(self, subject: str, body: object = b"") -> Reply:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await self.connection.request(subject, payload, timeout=PATIENCE_S)
        headers = reply.headers or {}
        status = headers.get("Nats-Service-Error-Code")
        return Reply(json.loads(reply.data), status and int(status), headers.get("Nats-Service-Error"))

    async def do(self, verb: str, body: object = b"", user: str = "alice") -> Reply:
        return await self.ask(f"rankd.v1.user.{user}.{verb}", body)

    async def submit(self, user: str = "alice", **job: object) -> int:
        reply = await self.do("job.submit", {"command": ["true"], **job}, user)
        assert reply.status is None, reply
        return reply.body["id"]

    async def listen(self) -> None:
        """Every commit, generation and allocation is announced; :meth:`until` looks after each."""

        async def on_message(_message: object) -> None:
            self._news.set()

        for subject in ("rankd.v1.event.>", "rankd.v1.internal.committed", "rankd.v1.node.*.allocation"):
            await self.connection.subscribe(subject, cb=on_message)
        await self.connection.flush()

    async def until(self, condition):
        """Wait for what is on the bus to make this true; returns what it gave."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := condition()):
                await self._news.wait()
                self._news.clear()
        return found


async def true_in_time(condition) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(ASK_EVERY_S)


async def quiet(_error: Exception) -> None:
    """The broker is killed on purpose."""


@asynccontextmanager
async def connected(url: str):
    connection = PatientClient()
    await connection.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet)
    client = Client(connection)
    await client.listen()
    try:
        yield client
    finally:
        await connection.close()


@asynccontextmanager
async def running(service, options):
    """The service in this process, from here to the end of the block, where it is stopped."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(service(options, stop))
        try:
            yield task
        finally:
            stop.set()


async def ready(bus: Bus, service: str) -> None:
    """Returns once the service says so."""
    async with asyncio.timeout(PATIENCE_S):
        while not asyncio.current_task().cancelling():  # nats-py may swallow a cancellation that meets an answer
            with suppress(Unavailable):
                if (await ask_health(bus, service, timeout_s=1.0)).ready:
                    return
            await asyncio.sleep(ASK_EVERY_S)  # nobody tells when it begins to listen; it needs the processor, too
        raise asyncio.CancelledError


@asynccontextmanager
async def process(*words: str, version: Path | None = None, **options: object):
    """``rankd ...`` as a process of its own, killed at the end; lines of its log are read with ``stderr.readline``.

    ``version``: the directory with the files of another version.
    """
    own = None if version is None else os.environ | {"PYTHONPATH": f"{version / 'daemon'}:{version / 'plugins'}"}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rankd", *words, *flags, stderr=asyncio.subprocess.PIPE, env=own, cwd=version
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


class Cluster:
    """Services that take their steps one at a time, as a test calls ``run_once``; the test plays users and nodes."""

    def __init__(self, configuration, catalog, database: Database, bus: Bus) -> None:
        self.configuration = configuration
        self.catalog = catalog
        self.database = database
        self.bus = bus

    def prioritizer(self, configuration=None) -> Prioritizer:
        used = configuration or self.configuration
        return Prioritizer(used, RankingSource(used, self.catalog), self.database, self.bus)

    def scheduler(self) -> Scheduler:
        source = SchedulingSource(self.configuration, self.catalog)
        return Scheduler(self.configuration, source, self.database, BusOutbox(self.bus, "scheduler"))

    async def submit(self, *jobs, at: float = NOW) -> list[int]:
        new = [NewJob(accepted=job, actor=job.user, at=at) for job in jobs]
        return await self.database.write(lambda c: insert_jobs(c, new, self.catalog))

    async def act(self, decide: Decide, *jobs: int, at: float = NOW):
        return await self.database.write(lambda c: act(c, jobs, ROOT, at, decide))

    async def add_node(self, name: str, vcore: int = 4, at: float = NOW) -> None:
        registration = NodeRegistration(resources={"vcore": vcore}, agent=name)
        await self.database.write(lambda c: register_node(c, name, registration, at))

    async def set_node(self, name: str, state) -> None:
        await self.database.write(lambda c: set_state(c, name, state, NOW, "root"))

    async def report(self, *reports: tuple[str, Report], at: float = NOW) -> None:
        await self.database.write(lambda c: take_reports(c, reports, 3, at))

    async def end(self, *jobs: int, at: float = NOW, **fields) -> None:
        """Their nodes report that these jobs have completed."""
        for job in jobs:
            [(allocation, nodes)] = self.rows("SELECT id, nodes FROM allocations WHERE job_id = ?", job)
            ended = Report(allocation=allocation, job=job, kind="ended", at=at, exit_status=0, started_at=at, **fields)
            await self.report(*[(node, ended) for node in json.loads(nodes)], at=at)

    def rows(self, query: str, *values: object) -> list[tuple]:
        return rows(self.database.path, query, *values)

    def states(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, state FROM jobs"))

    def ranking(self) -> list[int]:
        return [job for (job,) in self.rows("SELECT job_id FROM ranking ORDER BY rank")]


@asynccontextmanager
async def a_cluster(
    directory: Path, url: str, configuration=None, roles=("prioritizer", "scheduler"), kind=open_database
):
    """The database in ``directory``, with these roles taken."""
    used = configuration or builder.configuration()
    async with kind(directory / "rankd.db", durable=False) as database, Bus(url, "test") as bus:
        catalog = await database.write(lambda c: sync_catalog(c, used, NOW))
        for role in roles:
            await database.take_role(role, NOW)
        await ensure_streams(bus)
        yield Cluster(used, catalog, database, bus)
