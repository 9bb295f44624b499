"""No service answers on a subject that is no inbox: every verb, and health and figures of each service."""

from __future__ import annotations

from contextlib import AsyncExitStack

import builder
from integration.stage import PATIENCE_S, connected, ready, running, write_config

from rankd.bus.connection import Bus
from rankd.services.intake import service as intake
from rankd.services.prioritizer import service as prioritizer
from rankd.services.scheduler import service as scheduler
from rankd.wire.subject import diag_subject, health_subject

FORGED = ("rankd.v1.event.forged", "rankd.v1.node.here.allocation", "forged", "_INBOX")
SERVICES = {
    "intake": (intake.run, intake.IntakeOptions),
    "prioritizer": (prioritizer.run, prioritizer.PrioritizerOptions),
    "scheduler": (scheduler.run, scheduler.SchedulerOptions),
}


async def test_no_verb_and_no_service_answers_on_a_forged_reply_subject(broker, tmp_path):
    builder.new_database(tmp_path)
    places = {"nats": broker.url, "db": str(tmp_path / "rankd.db"), "config": write_config(tmp_path / "config")}
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, AsyncExitStack() as services:
        for service, (run, options) in SERVICES.items():
            await services.enter_async_context(running(run, options(**places)))
            await ready(bus, service)
        heard = await listening(client)
        for subject in await every_subject(client):
            for reply in FORGED:
                await client.connection.publish(subject, b"not a request", reply=reply)
            answer = await client.connection.request(subject, b"not a request", timeout=PATIENCE_S)
            assert answer.subject.startswith("_INBOX."), subject
        await client.connection.flush()
        assert heard == []


async def listening(client) -> list[tuple[str, bytes]]:
    """What is published on the forged subjects; events of the services' own are on others."""
    heard: list[tuple[str, bytes]] = []

    async def note(message) -> None:
        heard.append((message.subject, message.data))

    for subject in FORGED:
        await client.connection.subscribe(subject, cb=note)
    await client.connection.flush()
    await client.connection.publish(FORGED[-1], b"heard")
    await client.connection.flush()
    while not heard:
        await client.connection.flush()
    heard.clear()
    return heard


async def every_subject(client) -> list[str]:
    """A subject of each endpoint that the service lists, and those on which the services describe themselves."""
    endpoints = (await client.ask("$SRV.INFO.rankd")).body["endpoints"]
    assert len(endpoints) > 100
    subjects = [endpoint["subject"].replace("*", "alice") for endpoint in endpoints]
    subjects += [health_subject(service) for service in SERVICES]
    subjects += [diag_subject(service) for service in ("prioritizer", "scheduler")]
    return [*subjects, "$SRV.PING.rankd", "$SRV.INFO.rankd", "$SRV.STATS.rankd"]
