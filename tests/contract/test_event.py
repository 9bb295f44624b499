"""Events on their way to the broker, and the events that an error tells."""

import pytest
from builder import NOW
from contract.world import DONE, FIRST
from sqlalchemy import delete

from rankd.core.errors import InvalidTransition
from rankd.core.model.job import Event, State
from rankd.store.engine.last_id import last_id
from rankd.store.feed.event import read_unpublished
from rankd.store.look.adapter_list import adapters
from rankd.store.look.relay_backlog import relay_backlog
from rankd.store.record.job_story import past_events, tells_story
from rankd.store.record.relay_mark import Mark, move_mark
from rankd.store.schema.table import job_events


async def test_events_are_read_until_their_mark_is_moved(world):
    await world.submit("alice", "bob")
    found = await world.read(read_unpublished, 2, 5)
    assert [letter.message_id for letter in found.letters] == ["m1"]
    assert {mark: len(events) for mark, events in found.events.items()} == {
        Mark.NODES: 2, Mark.QUEUES: 2, Mark.CONFIGURATIONS: 1, Mark.JOBS: 2,
    }  # fmt: skip
    assert [event.name for event in found.events[Mark.NODES]] == ["n1", "n2"]
    assert set(found.more) == {Mark.NODES, Mark.QUEUES}
    for mark, events in found.events.items():
        await world.write(move_mark, mark, events[-1].event.id)
    again = await world.read(read_unpublished, 10, 5)
    assert [event.name for event in again.events[Mark.NODES]] == ["n3", "n3"]
    assert again.events[Mark.CONFIGURATIONS] == []
    assert again.more == []


async def test_events_behind_a_gap_are_read(world):
    await world.submit(*["alice"] * 5)
    last = await world.read(last_id, "job_events")
    first = last - 4
    await world.write(move_mark, Mark.JOBS, first)
    await world.write(lambda c: c.execute(delete(job_events).where(job_events.c.id.between(first + 1, last - 2))))
    found = await world.read(read_unpublished, 2, 5)
    assert [event.event.id for event in found.events[Mark.JOBS]] == [last - 1, last]
    assert Mark.JOBS not in found.more


async def test_the_backlog_of_the_relay(world):
    await world.submit("alice", "bob", at=NOW + 2)
    backlog = await world.read(relay_backlog, NOW + 10)
    assert (backlog.events, backlog.lag_s) == (2, 8.0)
    await world.write(move_mark, Mark.JOBS, await world.read(last_id, "job_events"))
    empty = await world.read(relay_backlog, NOW + 10)
    assert (empty.events, empty.lag_s) == (0, 0.0)


async def test_adapters_are_listed_with_their_last_reading(world):
    [row] = await world.read(adapters)
    assert (row["name"], row["state"], row["rows"], row["read_at"]) == ("grades", "ok", 1, NOW)


async def test_an_impossible_event_tells_what_happened_to_the_job(world):
    events = await world.read(past_events, DONE)
    assert [event.event for event in events] == ["submit", "allocate", "start", "complete"]

    def fail(connection):
        with tells_story(connection):
            raise InvalidTransition(FIRST, State.PENDING, Event.COMPLETE)

    with pytest.raises(InvalidTransition, match="submit"):
        await world.read(fail)
