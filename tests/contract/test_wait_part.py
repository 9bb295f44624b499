"""What jobs waited for: six parts that add up to the time until the first start or the end."""

from collections import Counter

import pytest
from builder import NOW
from contract.arrays import submit_array
from contract.store import ALICE, ROOT
from contract.world import allocate, end
from msgspec.structs import replace

from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_change import Change
from rankd.core.model.job import Event, State
from rankd.core.model.wait_part import COLUMNS
from rankd.store.look.waited import waited_so_far
from rankd.store.look.why import why
from rankd.store.record.allocation import ReasonRow
from rankd.store.record.array import split_first
from rankd.store.record.dependency import show_reason
from rankd.store.record.job_action import act
from rankd.store.record.wait_part import KEPT_S, MOST_SPELLS, count_up, count_waits, save_spells


def reason(shape, code, fact="so"):
    return ReasonRow(queue=0, shape=shape, time_limit_s=-1.0, user="", application=-2, reason=code, fact=fact)


async def parts_of(store, job):
    """The parts that are not 0, by their short names; None while they are not known."""
    [row] = await store.rows("job", id=job)
    found = {cause.value: row[name] for cause, name in COLUMNS.items()}
    if None in found.values():
        assert set(found.values()) == {None}
        return None
    [stored] = await store.rows("jobs", id=job)
    until = row["started_at"] or row["ended_at"]
    assert sum(found.values()) == stored["waited_s"] == until - row["submitted_at"]
    return {name: part for name, part in found.items() if part}


async def held_job(store):
    """A job that waits for resources from 1 s on and is held at 10 s, and two reasons of its kind."""
    await store.add_nodes("n1")
    [job] = await store.submit("alice", at=NOW)
    [row] = await store.rows("jobs", id=job)
    busy, kept = reason(row["shape"], "resources"), reason(row["shape"], "reserved")
    await store.write(save_spells, [busy], None, NOW + 1)
    await store.write(act, [job], ALICE, NOW + 10, hold)
    return job, busy, kept


async def test_the_parts_of_a_wait_are_those_of_its_record_and_of_its_kind(store):
    job, busy, kept = await held_job(store)
    await store.write(act, [job], ALICE, NOW + 30, release)
    await store.write(save_spells, [reason(busy.shape, "resources", "another fact")], [busy], NOW + 33)
    await store.write(save_spells, [kept], [busy], NOW + 35)
    await store.write(save_spells, [], [kept], NOW + 37)
    assert await parts_of(store, job) is None
    await allocate(store, job, "n1", at=NOW + 37)
    await end(store, job, "n1", at=NOW + 45)
    assert await parts_of(store, job) == {"resources": 15.0, "held": 20.0, "reserved": 2.0, "starting": 3.0}
    assert [row["cause"] for row in await store.rows("reason_spells")] == ["resources", "reserved", ""]


async def test_a_job_that_never_starts_waits_until_its_end(store):
    [blocker] = await store.submit("alice", at=NOW)
    [job] = await store.submit("alice", at=NOW, request={"depends_on": [{"type": "afterok", "job": blocker}]})
    await store.write(act, [job], ALICE, NOW + 7, cancel)
    assert await parts_of(store, job) == {"dependency": 7.0}


async def test_time_up_to_the_end_of_other_jobs_is_apart_from_the_time_up_to_the_begin(store):
    [blocker] = await store.submit("alice", at=NOW)
    waits = {"depends_on": [{"type": "afterany", "job": blocker}], "begin_at": NOW + 100}
    [job] = await store.submit("alice", at=NOW, request=waits)
    await store.write(show_reason, [job], "begin time", NOW + 30)
    await store.write(count_up, [job], NOW + 40)
    await store.write(act, [job], ALICE, NOW + 50, cancel)
    assert await parts_of(store, job) == {"dependency": 30.0, "held": 20.0}


async def test_tasks_have_what_their_array_waited_for_until_they_left_it(store):
    array = await submit_array(store)
    await store.write(act, [array], ALICE, NOW + 5, hold)
    await store.write(act, [array], ALICE, NOW + 9, release)
    [task] = await store.write(split_first, array, 1, "scheduler", NOW + 20)
    await store.write(act, [task], ROOT, NOW + 20, cancel)
    [row] = await store.rows("jobs", id=task)
    assert (row["waited_held_s"], row["waited_s"]) == (4.0, 20.0)


async def test_columns_are_counted_in_the_order_of_the_changes(store):
    [job] = await store.submit("alice", at=NOW)
    held = Change(job=job, state=State.PENDING, event=Event.HOLD, actor="x", columns={"held": True})
    gone = Change(job=job, state=State.PENDING, event=Event.CANCEL, actor="x", columns={"ended_at": NOW + 6})
    found = (await store.write(count_waits, [held, gone], NOW + 4))[job]
    assert (found["waited_starting_s"], found["waited_held_s"], found["waited_s"]) == (4.0, 2.0, 6.0)


@pytest.mark.parametrize(("user", "application"), [("alice", -1), ("alice", -2), ("", -1), ("", -2)])
async def test_the_cause_of_the_own_queue_counts_before_that_of_any(store, user, application):
    [job] = await store.submit("alice", at=NOW)
    [row] = await store.rows("jobs", id=job)
    common, foreign = reason(row["shape"], "resources"), reason(row["shape"], "of others")
    own = replace(common, queue=row["queue_id"], user=user, application=application, reason="reserved")
    others = [replace(foreign, queue=row["queue_id"] + 1, user=user), replace(foreign, queue=own.queue, user="bob")]
    await store.write(save_spells, [common, *others], None, NOW)
    await store.write(save_spells, [own], [], NOW + 4)
    await store.write(act, [job], ALICE, NOW + 10, cancel)
    assert await parts_of(store, job) == {"resources": 4.0, "reserved": 6.0}


async def test_of_the_kinds_that_share_a_shape_only_the_changed_one_with_a_long_history_is_thinned(store):
    rows = [reason(7, "resources"), reason(7, "reserved")]
    kinds = [[replace(row, user=user) for row in rows] for user in ("alice", "bob", "eve")]
    await store.write(save_spells, [first for first, _ in kinds], None, NOW)
    for number in range(1, MOST_SPELLS):
        new, old = number % 2, (number - 1) % 2
        now = NOW + number
        await store.write(save_spells, [kind[new] for kind in kinds[:2]], [kind[old] for kind in kinds[:2]], now)
    for number in (1, 2):
        await store.write(save_spells, [kinds[2][number % 2]], [kinds[2][(number - 1) % 2]], NOW + number)
    counts = Counter(row["user"] for row in await store.rows("reason_spells"))
    assert counts == {"alice": MOST_SPELLS, "bob": MOST_SPELLS, "eve": 3}
    await store.write(save_spells, [kinds[0][0]], [kinds[0][1]], NOW + MOST_SPELLS)
    counts = Counter(row["user"] for row in await store.rows("reason_spells"))
    assert (counts["alice"] < MOST_SPELLS, counts["bob"], counts["eve"]) == (True, MOST_SPELLS, 3)


async def test_long_histories_are_thinned_and_kinds_that_are_gone_are_forgotten(store):
    rows = [reason(7, "resources"), reason(7, "reserved")]
    await store.write(save_spells, [rows[0]], None, NOW)
    for number in range(1, 2 * MOST_SPELLS):
        await store.write(save_spells, [rows[number % 2]], [rows[(number - 1) % 2]], NOW + number)
        assert len(await store.rows("reason_spells")) <= MOST_SPELLS
    assert (await store.rows("reason_spells", since=NOW))[0]["cause"] == "resources"
    await store.write(save_spells, [], None, NOW + 1000)
    await store.write(save_spells, [reason(8, "resources")], [], NOW + 2000 + KEPT_S)
    assert [row["shape"] for row in await store.rows("reason_spells")] == [8]


async def test_what_a_job_has_waited_for_so_far_is_what_its_start_would_count(store):
    job, busy, kept = await held_job(store)
    assert await so_far(store, job, NOW + 14) == {"resources": 10.0, "held": 4.0}
    await store.write(act, [job], ALICE, NOW + 30, release)
    await store.write(save_spells, [kept], [busy], NOW + 35)
    assert await so_far(store, job, NOW + 37) == {"resources": 15.0, "held": 20.0, "reserved": 2.0}
    assert await so_far(store, job, NOW) == {"resources": 10.0, "held": 20.0}, "the clock went back"
    answer = await store.look(why, job, NOW + 37)
    assert (answer["waited_held_s"], answer["waited_reserved_s"], answer["waited_quota_s"]) == (20.0, 2.0, 0.0)
    await allocate(store, job, "n1", at=NOW + 37)
    assert await so_far(store, job, NOW + 39) == {"resources": 15.0, "held": 20.0, "reserved": 2.0, "starting": 2.0}
    await end(store, job, "n1", at=NOW + 45)
    assert await store.look(waited_so_far, job, NOW + 50) == {}
    assert await parts_of(store, job) == {"resources": 15.0, "held": 20.0, "reserved": 2.0, "starting": 3.0}


async def so_far(store, job, now):
    parts = await store.look(waited_so_far, job, now)
    return {name.removeprefix("waited_").removesuffix("_s"): part for name, part in parts.items() if part}
