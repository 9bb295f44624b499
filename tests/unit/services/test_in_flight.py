"""Jobs on their way into the database."""

import asyncio

from rankd.services.intake import in_flight
from rankd.services.intake.in_flight import InFlight


async def test_a_count_waits_for_what_was_on_its_way_and_for_no_more():
    flight = InFlight[str]()
    await flight.settled("alice")
    flight.begin("alice", 2)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(flight.settled("alice"))
        await asyncio.sleep(0)
        flight.begin("alice", 5)
        flight.end("alice", 1, stored=True)
        await asyncio.sleep(0)
        assert not waiting.done()
        flight.end("alice", 1, stored=False)
    assert (flight.number("alice"), flight.total("alice")) == (5, 6)


async def test_a_store_that_stands_still_holds_up_no_count_for_ever(monkeypatch):
    monkeypatch.setattr(in_flight, "PATIENCE_S", 0.0)
    flight = InFlight[str]()
    flight.begin("alice", 1)
    await flight.settled("alice")
    flight.end("alice", 1, stored=True)
    assert flight.number("alice") == 0
