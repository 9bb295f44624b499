"""Hints on the bus, and who is woken by them."""

import json

from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.services.runtime.life import Wake, announce
from rankd.wire.subject import EVENT_RANKING, WAKE


async def awake(wake, bus) -> bool:
    """Whether what was published so far has set it."""
    for _ in range(2):  # the server hands out a connection's messages in their order; the second for the callback
        await bus.client.flush(PATIENCE_S)
    return wake.take()


async def test_a_service_is_woken_by_commits_of_others_not_by_its_own(nats_url):
    async with Bus(nats_url, "test") as bus:
        wake = Wake()
        await wake.listen(bus, WAKE, EVENT_RANKING, besides="scheduler")
        await announce(bus, "scheduler")
        assert not await awake(wake, bus)
        await announce(bus, "intake")
        assert await awake(wake, bus)
        await bus.client.publish(EVENT_RANKING, json.dumps({"service": "scheduler"}).encode())
        assert await awake(wake, bus)


async def test_a_hint_that_cannot_be_read_wakes(nats_url):
    """Who looks once too often loses nothing."""
    async with Bus(nats_url, "test") as bus:
        wake = Wake()
        await wake.listen(bus, WAKE, besides="scheduler")
        await bus.client.publish(WAKE, b"?")
        assert await awake(wake, bus)
