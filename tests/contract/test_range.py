"""Ranges of ids mean jobs and arrays, never tasks by the ids of their records."""

import pytest
from builder import NOW
from contract.arrays import end, start, submit_array
from contract.store import ALICE

from rankd.core.change.job_action import cancel
from rankd.core.errors import Refused
from rankd.services.intake.job_selection import by_record
from rankd.store.look.accounting import accounting
from rankd.store.look.event_list import events_behind
from rankd.store.look.job_filter import count_jobs, job_ids
from rankd.store.look.job_list import MANY, jobs
from rankd.store.record import job_range
from rankd.store.record.job_action import act, select_ids
from rankd.store.record.job_name import Target, targets_of
from rankd.store.record.job_range import active_in, arrays_among, nothing_in, unknown
from rankd.wire.message import AccountingFilter, EventsRequest, JobFilter, JobList

HUGE = "1-4000000000"


@pytest.fixture
async def two(store):
    """Job 1, array 2 of which three tasks have the records 3 to 5, job 6 of bob's, job 7. Job 1 has ended."""
    await store.add_nodes("n1")
    [first] = await store.submit("alice")
    array = await submit_array(store)
    await start(store, array, 3)
    assert await store.submit("bob", "alice") == [6, 7]
    await store.write(act, [first], ALICE, NOW, cancel)
    return store


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        (["3-5"], []),
        (["4-6"], [6]),
        (["1-2"], [1, 2, 3, 4, 5]),
        (["2-2", 4], [2, 3, 4, 5]),
        (["1-1", "2_1"], [1, 4]),
        ([4], [4]),
        (["900-950"], []),
        ([HUGE], [1, 2, 3, 4, 5, 6, 7]),
        (["3-4000000000"], [6, 7]),
        (["3-4000000000", "1-1", "2_1"], [1, 4, 6, 7]),
        (["2-3000000000", "7-4000000000"], [2, 3, 4, 5, 6, 7]),
    ],
)
async def test_a_look_at_a_range_is_one_at_its_jobs_and_arrays_with_their_tasks(two, ids, found):
    assert sorted(await two.look(job_ids, JobFilter(ids=ids))) == found
    assert await two.look(count_jobs, JobFilter(ids=ids)) == len(found)
    for limit in (100, MANY + 1):
        assert [row["id"] for row in await two.look(jobs, JobFilter(ids=ids, limit=limit))] == found
    assert sorted({row["id"] for row in await two.look(accounting, AccountingFilter(ids=ids))}) == found
    events = await two.look(events_behind, EventsRequest(after=0, jobs=ids))
    assert sorted({row["job"] for row in events.rows}) == found


async def test_a_list_without_tasks_has_jobs_and_arrays_only(two):
    wanted = JobList(ids=[HUGE], tasks=False)
    assert sorted(await two.look(job_ids, wanted)) == [1, 2, 6, 7]
    wanted = JobList(tasks=False, limit=MANY + 1)
    assert [row["id"] for row in await two.look(jobs, wanted)] == [1, 2, 6, 7]


async def test_the_accounting_of_a_range_has_the_whole_array_also_if_a_task_is_named_too(two):
    rows = await two.look(accounting, AccountingFilter(ids=["2_0", "2-2"]))
    assert [row["id"] for row in rows] == [2, 3, 4, 5]


async def test_a_change_of_a_range_is_one_of_what_has_not_ended_in_it(two):
    found, failed = await two.read(targets_of, ["1-6"], (), ["alice"])
    assert found == [Target(2, of_whole=True, array=2), *(Target(task, of_whole=True, array=2) for task in (3, 4, 5))]
    assert failed == []
    assert (await two.read(targets_of, ["6-7"])).found == [Target(6), Target(7)]
    assert (await two.read(targets_of, ["6-7", 7])).found == [Target(7), Target(6)], "each once"


@pytest.mark.parametrize(
    ("ids", "users", "code", "message"),
    [
        ("3-5", None, "unknown_job", "there is no job in 3-5"),
        ("6-6", ["alice"], "unknown_job", "there is no job of alice in 6-6"),
        ("900-950", None, "unknown_job", "there is no job in 900-950"),
        ("1-1", None, "already_ended", "every job in 1-1 has ended; there is nothing to change"),
    ],
)
async def test_a_range_without_a_job_to_change_is_a_failure(two, ids, users, code, message):
    found, failed = await two.read(targets_of, [ids], (), users)
    assert found == []
    assert [(one.id, one.code, one.message) for one in failed] == [(ids, code, message)]
    filtered = await two.read(by_record, JobFilter(ids=[ids], users=users))
    assert filtered.failed == failed
    assert (await two.read(by_record, JobFilter(ids=[ids], users=users, after=1))).failed == [], (
        "only of the first page"
    )


async def test_a_filter_has_ranges_and_names(two):
    async def chosen(*ids, **conditions):
        wanted = await two.read(by_record, JobFilter(ids=list(ids), **conditions))
        return await two.read(select_ids, wanted.filter)

    assert await chosen(HUGE) == [2, 3, 4, 5, 6, 7]
    assert await chosen("3-6") == [6]
    assert await chosen("3-6", "2_0", 7) == [3, 6, 7]
    assert await chosen("1-6", users=["alice"], after=3) == [4, 5]
    assert await chosen("1-6", limit=2) == [2, 3]


async def test_what_ended_stays_in_lists_but_not_in_changes(two):
    await two.take("n1")
    await end(two, 1, 3)
    assert await two.look(job_ids, JobFilter(ids=["1-2"])) == [5, 4, 3, 2, 1]
    assert await two.read(active_in, range(1, 7), None) == [2, 6]
    assert await two.read(nothing_in, range(1, 7), None) is None


async def test_what_is_of_an_array_is_known_of_each_record(two):
    assert await two.read(arrays_among, [1, 2, 3, 6]) == {2: 2, 3: 2}


async def test_a_range_of_too_many_jobs_needs_a_filter(two, monkeypatch):
    monkeypatch.setattr(job_range, "MOST_IN_RANGES", 2)
    with pytest.raises(Refused, match="more than 2 jobs in 1-4000000000 have not ended") as caught:
        await two.read(active_in, range(1, 4_000_000_001), None)
    assert caught.value.code == "too_many"


async def test_a_number_in_a_filter_that_is_no_job_of_these_users_is_a_failure(two):
    assert [one.message for one in await two.read(unknown, [1, 6, 900], None)] == ["there is no job 900"]
    found = await two.read(by_record, JobFilter(ids=[1, 6, 4], users=["alice"]))
    assert [one.message for one in found.failed] == ["there is no job 6 of alice"]
