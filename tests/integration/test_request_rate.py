"""A user who asks too often waits for the own turn: no other user, administrator or node waits with that user."""

from __future__ import annotations

import asyncio

import builder
import pytest
from integration.intake_stage import an_intake, options_of
from integration.stage import PATIENCE_S, Reply, connected, ready

from rankd.bus import endpoint
from rankd.bus.connection import Bus
from rankd.bus.request_turns import MAX_REQUESTS_PER_ASKER
from rankd.services.intake.service import run


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def an_intake_with(broker, tmp_path, rate):
    return an_intake(broker, tmp_path, unknown_association=f'"default"\nmax_requests_per_s = {rate}')


async def ask(stage, sender: str) -> int:
    """Ask for something cheap; returns the status."""
    reply = await stage.connection.request(f"rankd.v1.{sender}.site.show", b"{}", timeout=PATIENCE_S)
    return int((reply.headers or {}).get("Nats-Service-Error-Code", 200))


async def test_one_above_the_rate_waits_until_it_is_another_one_and_nobody_else_does(broker, tmp_path):
    async with an_intake_with(broker, tmp_path, 1) as stage, asyncio.TaskGroup() as group:
        flood = [group.create_task(ask(stage, "user.alice")) for _ in range(500)]
        others = [group.create_task(ask(stage, sender)) for sender in ("user.bob", *["admin.alice"] * 100)]
        assert {await other for other in others} == {200}
        assert not all(one.done() for one in flood)
        path = tmp_path / "config" / "rankd.toml"
        path.write_text(path.read_text().replace("max_requests_per_s = 1\n", "max_requests_per_s = 1000\n"))
        reply = await stage.ask("rankd.v1.admin.root.config.reload", {})
        assert reply.status is None, reply
        assert {await one for one in flood} == {200}


async def test_above_the_most_that_may_wait_one_is_refused_with_the_limit_and_a_stop_answers_all_that_wait(
    broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(endpoint, "REFUSAL_AFTER_S", 0.01)
    options = options_of(broker, tmp_path, unknown_association='"default"\nmax_requests_per_s = 1')
    stop = asyncio.Event()
    async with (
        asyncio.timeout(PATIENCE_S),
        connected(broker.url) as client,
        Bus(broker.url, "probe") as bus,
        asyncio.TaskGroup() as group,
    ):
        service = group.create_task(run(options, stop))
        await ready(bus, "intake")
        flood = [group.create_task(client.do("site.show")) for _ in range(MAX_REQUESTS_PER_ASKER + 100)]
        refused = await first_refused(flood)
        assert refused.body["code"] == "too_many_waiting"
        assert "admission.max_requests_per_s, 1," in refused.body["message"]
        assert await ask(client, "user.bob") == 200
        stop.set()
        statuses = [(await one).status for one in flood]
        await service
    assert set(statuses) == {None, 429}
    assert statuses.count(None) >= MAX_REQUESTS_PER_ASKER


async def first_refused(flood: list[asyncio.Task[Reply]]) -> Reply:
    for answered in asyncio.as_completed(flood):
        if (reply := await answered).status == 429:
            return reply
    raise AssertionError("all were answered")


async def test_refusals_that_nobody_waits_for_are_dropped_and_harm_nobody(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(endpoint, "MOST_REFUSALS", 5)
    async with an_intake_with(broker, tmp_path, 1) as stage:
        for _ in range(MAX_REQUESTS_PER_ASKER + 1_000):
            await stage.connection.publish("rankd.v1.user.alice.site.show", b"{}", reply="_INBOX.nobody.x")
        await stage.connection.flush()
        assert await ask(stage, "user.bob") == 200
        await ready_again(broker)


async def ready_again(broker) -> None:
    async with Bus(broker.url, "probe") as bus:
        await ready(bus, "intake")
