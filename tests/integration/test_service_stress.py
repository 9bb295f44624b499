"""Intake, prioritizer and scheduler, stopped and cancelled at any await: nothing is left, and the next one works."""

from __future__ import annotations

import asyncio

import builder
import pytest
from integration.stage import connected, ready, rows, running
from integration.test_roles import SERVICES, service_of

from rankd.bus.connection import Bus
from rankd.services.runtime.life import end_tasks

TIMES = 50
TURNS = 25
"""So many more turns of the event loop each time; a start takes some hundred."""


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def turns(number: int) -> None:
    """Let the event loop go round so often."""
    for _ in range(number):
        await asyncio.sleep(0)


async def works(broker, tmp_path) -> None:
    """All three together take a job, rank it and allocate it to a node."""
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client:
        pairs = [service_of(name, tmp_path, broker.url) for name in SERVICES]
        async with running(*pairs[0]), running(*pairs[1]), running(*pairs[2]):
            for name in SERVICES:
                await ready(bus, name)
            await client.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 4}, "agent": "n1"})
            job = await client.submit()
            query = "SELECT count(*) FROM allocations WHERE job_id = ?"
            await client.until(lambda: rows(tmp_path / "rankd.db", query, job) == [(1,)])


@pytest.mark.parametrize("name", SERVICES)
async def test_told_to_stop_at_any_moment_it_ends_and_the_next_one_works(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    for number in range(TIMES):
        async with running(service, options):
            await turns(number * TURNS)
    await works(broker, tmp_path)


@pytest.mark.parametrize("name", SERVICES)
async def test_cancelled_at_any_await_it_ends_and_the_next_one_works(broker, tmp_path, name):
    service, options = service_of(name, tmp_path, broker.url)
    for number in range(TIMES):
        task = asyncio.get_running_loop().create_task(service(options, asyncio.Event()))
        await turns(number * TURNS)
        await end_tasks(task)
        assert task.cancelled()
    await works(broker, tmp_path)
