"""A broker that is away: what is logged, and that services wait for it as long as it takes."""

from __future__ import annotations

import asyncio
import logging

import builder
import pytest
from integration.conftest import Broker
from integration.stage import process, ready, write_config
from watch import PATIENCE_S

from rankd.bus import outage
from rankd.bus.connection import Bus
from rankd.services.intake import service as intake


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_an_outage_is_a_line_when_it_begins_one_a_minute_and_one_when_it_ends(broker, caplog, monkeypatch):
    tried = []
    monkeypatch.setattr(outage, "REMIND_EVERY_S", 1.0)
    async with Bus(broker.url, "test") as bus:
        note = bus.outage.lost
        monkeypatch.setattr(bus.outage, "lost", lambda error: (tried.append(error), note(error)))
        url = broker.url
        broker.kill()
        await until(lambda: len(tried) >= 15)
        broker.start()
        await until(lambda: bus.outage.since is None)
        lines = said(caplog)
        assert lines[0].startswith(f"no connection to the broker at {url}")
        assert lines[-1].startswith(f"connected to the broker at {url} again, after")
        assert all(line.startswith(f"still no connection to the broker at {url}") for line in lines[1:-1])
        assert 1 <= len(lines[1:-1]) <= len(tried) / 2


async def test_an_outage_shorter_than_a_minute_is_two_lines_in_a_service(broker, caplog, tmp_path):
    builder.new_database(tmp_path)
    options = {"nats": broker.url, "db": str(tmp_path / "rankd.db"), "config": write_config(tmp_path / "config")}
    async with asyncio.TaskGroup() as group, Bus(broker.url, "test") as bus:
        stop = asyncio.Event()
        group.create_task(intake.run(intake.IntakeOptions(**options), stop))
        await ready(bus, "intake")
        caplog.clear()
        broker.kill()
        await until(lambda: bus.outage.since is not None and bus.outage.lasts_s > 3)
        broker.start()
        await ready(bus, "intake")
        lines = said(caplog)
        stop.set()
    mine = 2  # this test has a connection of its own, which says the same
    assert sum(line.startswith("no connection to the broker at") for line in lines) == mine
    assert sum(line.startswith("connected to the broker at") for line in lines) == mine
    assert len(lines) == 2 * mine, lines


@pytest.mark.parametrize("service", ["intake", "prioritizer", "scheduler", "agent"])
async def test_a_service_that_is_started_before_its_broker_waits_for_it_and_works(service, tmp_path):
    broker = Broker(tmp_path / "broker")
    broker.start()  # for a port
    url = broker.url
    broker.kill()
    builder.new_database(tmp_path)
    config = write_config(tmp_path / "config")
    place = {"db": tmp_path / "rankd.db", "config": config}
    flags = place if service != "agent" else {"name": "n1", "state": tmp_path / "state"}
    async with process(service, nats=url, **flags) as child:
        line = ""
        while "no connection to the broker at" not in line:
            line = (await child.stderr.readline()).decode()
        assert url in line
        broker.start()
        try:
            async with Bus(url, "test") as bus:
                if service != "agent":
                    await ready(bus, service)
                    return
                async with process("intake", nats=url, **place):
                    await ready(bus, "agent-n1")
        finally:
            broker.kill()


async def test_a_service_that_waits_for_its_broker_stops_when_told(tmp_path, broker):
    url = broker.url
    broker.kill()
    builder.new_database(tmp_path)
    async with process("agent", nats=url, name="n1", state=tmp_path / "state") as child:
        while "no connection to the broker at" not in (await child.stderr.readline()).decode():
            pass
        child.terminate()
        await child.wait()
        assert child.returncode == 0
    broker.start()
