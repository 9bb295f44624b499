"""A running intake with a real broker and a real database; the tests play users, nodes and agents over plain NATS."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

from integration.stage import NOW, Client, connected, ready, rows, running, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.services.intake.service import IntakeOptions, run
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.node import register_node
from rankd.wire.codec import encode
from rankd.wire.message import NodeRegistration, Report, ReportMessage

JOB = {"command": ["true"]}


class Stage(Client):
    """A client beside a running intake, with a look into its database."""

    def rows(self, query: str, *values: object) -> list[tuple]:
        return rows(self.path, query, *values)

    def states(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, state FROM jobs"))


def options_of(broker, tmp_path, **settings) -> IntakeOptions:
    return IntakeOptions(
        nats=broker.url, db=str(tmp_path / "rankd.db"), config=write_config(tmp_path / "config", **settings)
    )


@asynccontextmanager
async def an_intake(broker, tmp_path, **settings):
    options = options_of(broker, tmp_path, **settings)
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options) as task:
        await ready(bus, "intake")
        stage = Stage(client.connection)
        await stage.listen()
        stage.path, stage.task = tmp_path / "rankd.db", task
        yield stage


def write(tmp_path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "rankd.db", timeout=PATIENCE_S)
    with connection:
        connection.execute(statement)
    connection.close()


async def allocate(tmp_path, job: int, *nodes: str) -> int:
    """As the scheduler would; the allocation's id."""

    def commit(connection):
        for node in nodes:
            register_node(connection, node, NodeRegistration(resources={"vcore": 8}, agent=node), time.time())
        query = "SELECT revision FROM jobs WHERE id = ?"
        revision = connection.exec_driver_sql(query, (job,)).scalar_one()
        new = NewAllocation(
            job=job, revision=revision, nodes=nodes, resources={"vcore": 1000}, charge_rate=1.0, generation=1, rank=1
        )
        commit_allocations(connection, [new], 1, NOW)
        return connection.exec_driver_sql("SELECT max(id) FROM allocations").scalar_one()

    async with open_database(tmp_path / "rankd.db") as database:
        return await database.write(commit)


async def allocate_devices(path, job: int, node: str, *ids: str, at: float = NOW) -> int:
    """As the scheduler would, on a node that has registered these devices, of model a100; the allocation's id."""

    def commit(connection):
        query = "SELECT revision FROM jobs WHERE id = ?"
        revision = connection.exec_driver_sql(query, (job,)).scalar_one()
        amounts = {"vcore": 1000, "gpu": len(ids), "gpu:a100": len(ids)}
        new = NewAllocation(
            job=job, revision=revision, nodes=(node,), resources=amounts, charge_rate=1.0, generation=1, rank=1,
            devices={node: ids},
        )  # fmt: skip
        assert commit_allocations(connection, [new], 1, at) == 1
        return connection.exec_driver_sql("SELECT max(id) FROM allocations").scalar_one()

    async with open_database(path) as database:
        return await database.write(commit)


def report(allocation: int, job: int, kind: str, at: float = NOW + 1, **fields) -> Report:
    return Report(allocation=allocation, job=job, kind=kind, at=at, **fields)


async def send(stage, node: str, *reports: Report | bytes) -> None:
    """One message each, as they come."""
    for entry in reports:
        payload = entry if isinstance(entry, bytes) else encode(ReportMessage(reports=[entry]))
        await stage.connection.request(f"rankd.v1.node.{node}.report", payload, timeout=PATIENCE_S)


def story(stage, job: int) -> list[str]:
    return [event for (event,) in stage.rows("SELECT event FROM job_events WHERE job_id = ? ORDER BY id", job)]


async def until_state(stage, job: int, state: str) -> None:
    await stage.until(lambda: stage.states()[job] == state)


DRAIN, RESUME = "rankd.v1.admin.root.node.drain", "rankd.v1.admin.root.node.resume"


async def joined(stage, *nodes: str) -> None:
    for node in nodes:
        await stage.ask(f"rankd.v1.node.{node}.register", {"resources": {"vcore": 2}, "agent": node})
