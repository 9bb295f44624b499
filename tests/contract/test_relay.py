"""Events that are not published yet, and how far they are: what the relay reads and marks."""

from builder import NOW
from contract.store import ROOT
from contract.test_letter import letter

from rankd.core.change.job_action import hold
from rankd.store.feed.event import last_published, read_unpublished
from rankd.store.look.adapter_list import adapters
from rankd.store.look.relay_backlog import relay_backlog
from rankd.store.record.dead_letter import drop_letters, keep, mark_published, publish_again
from rankd.store.record.job_action import act
from rankd.store.record.relay_mark import Mark, move_mark, move_marks_back, published_until


async def test_events_are_unpublished_until_the_mark_has_passed_them(store):
    [one, other] = await store.submit("alice", "bob")
    await store.add_nodes("n1")
    await store.write(act, [one], ROOT, NOW + 5, hold)
    await store.write(keep, [letter(1)])
    found = await store.read(read_unpublished, 100, 100)
    jobs = [
        (name, event.id, event.job, event.event, event.state, event.actor) for name, event in found.events[Mark.JOBS]
    ]
    assert jobs == [
        ("alice", 1, one, "submit", "pending", "alice"),
        ("bob", 2, other, "submit", "pending", "bob"),
        ("alice", 3, one, "hold", "pending", "root"),
    ]
    assert [(name, event.event) for name, event in found.events[Mark.NODES]] == [("n1", "joined")]
    assert {(name, event.event) for name, event in found.events[Mark.QUEUES]} >= {("root.default", "made")}
    assert (found.events[Mark.CONFIGURATIONS], [one.user for one in found.letters]) == ([], ["alice"])
    assert len((await store.read(read_unpublished, 2, 0)).events[Mark.JOBS]) == 2
    await store.write(move_mark, Mark.JOBS, 1)
    await store.write(move_mark, Mark.JOBS, 2)
    found = await store.read(read_unpublished, 100, 100)
    assert [event.id for _, event in found.events[Mark.JOBS]] == [3]
    assert len(found.events[Mark.NODES]) == 1


async def test_the_backlog_is_how_many_events_wait_and_since_when(store):
    [job, _] = await store.submit("alice", "bob")
    await store.write(act, [job], ROOT, NOW + 5, hold)
    backlog = await store.read(relay_backlog, NOW + 7)
    assert (backlog.events, backlog.lag_s) == (3, 7.0)
    await store.write(move_mark, Mark.JOBS, 3)
    backlog = await store.read(relay_backlog, NOW + 7)
    assert (backlog.events, backlog.lag_s) == (0, 0.0)


async def test_the_adapters_are_listed_by_name(store):
    assert await store.read(adapters) == []


async def test_events_since_a_time_are_unpublished_again(store):
    [one, other] = await store.submit("alice", "bob")
    await store.write(act, [one], ROOT, NOW + 5, hold)
    await store.write(act, [other], ROOT, NOW + 9, hold)
    assert await store.read(last_published) is None
    await store.write(move_mark, Mark.JOBS, 4)
    last = await store.read(last_published)
    assert (last.id, last.user, last.at) == (4, "bob", NOW + 9)
    assert await store.write(move_marks_back, NOW + 10) == 0
    assert (await store.read(published_until))[Mark.JOBS] == 4
    assert await store.write(move_marks_back, NOW + 5) == 2
    assert (await store.read(published_until))[Mark.JOBS] == 2
    assert await store.write(move_marks_back, NOW - 5) == 2
    found = await store.read(read_unpublished, 100, 100)
    assert [event.id for _, event in found.events[Mark.JOBS]] == [1, 2, 3, 4]


async def test_a_mark_is_never_moved_forward_by_events_that_are_older(store):
    await store.submit("alice", "bob")
    await store.write(move_mark, Mark.JOBS, 1)
    assert await store.write(move_marks_back, NOW + 100) == 0
    assert (await store.read(published_until))[Mark.JOBS] == 1


async def test_waiting_letters_are_unpublished_again(store):
    await store.write(keep, [letter(1), letter(2)])
    letters = (await store.read(read_unpublished, 0, 100)).letters
    await store.write(mark_published, letters)
    await store.write(drop_letters, [letters[0].id], "alice", NOW)
    assert await store.write(publish_again) == 1
    assert [one.id for one in (await store.read(read_unpublished, 0, 100)).letters] == [letters[1].id]
