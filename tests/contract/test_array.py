"""Arrays: one record with many tasks, the records that tasks get, and the numbers that decide when an array ends."""

import msgspec
import pytest
from builder import NOW, accepted
from contract.arrays import TEN, end, numbers, record, start, submit_array
from contract.store import ALICE, ROOT

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_change import Change
from rankd.core.errors import Refused
from rankd.core.model.array import parse_array
from rankd.core.model.index_set import count, each, parse, read
from rankd.core.model.job import Event, JobRequest, State
from rankd.store.engine.group_commit import PART
from rankd.store.feed.pending_kind import all_arrays, all_tasks, changed_arrays, changed_tasks, indices_in
from rankd.store.look.job_detail import job_detail, job_events
from rankd.store.look.job_filter import by_record, job_ids
from rankd.store.look.job_name import record_of
from rankd.store.look.job_name import records_of as shown_records_of
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.application import memberships
from rankd.store.record.array import (
    cancel_rests,
    end_arrays,
    forget_requests,
    split_first,
    split_these,
    which_are_arrays,
)
from rankd.store.record.array_count import count_tasks, ends_of, insert_arrays
from rankd.store.record.job_action import act, closed_jobs, split_targets
from rankd.store.record.job_name import Owner, Target, jobs_in, owners_of, records_of, targets_of, weight_of
from rankd.store.record.pending_count import count_pending, count_pending_tasks, count_pending_tasks_of_account
from rankd.wire.message import JobFilter


async def where_each_index_is(store, array):
    """The record of each index of an array; every index has to be in exactly one."""
    [row] = await store.rows("jobs", id=array)
    [own] = await store.rows("arrays", job_id=array)
    found = [(index, "array") for index in each(read(row["array"]))]
    found += [(index, "cancelled") for index in each(read(own["cancelled"]))]
    found += [(task["array_task"], task["id"]) for task in await store.rows("jobs", array_job=array)]
    assert len(found) == len(dict(found)) == own["n_tasks"]
    assert own["n_pending"] == count(read(row["array"]))
    return dict(found)


# --- records ------------------------------------------------------------------------------------------------


async def test_an_array_is_one_record_with_its_indices(store):
    array = await submit_array(store, "1-9:2%3")
    row = await record(store, array)
    assert (row["array"], row["array_limit"], row["array_job"], row["state"]) == ("1-9:2", 3, None, "pending")
    [own] = await store.rows("arrays", job_id=array)
    assert [own[name] for name in ("n_tasks", "first", "last", "step", "n_pending")] == [5, 1, 9, 2, 5]
    assert await store.read(count_pending, "alice") == 1
    assert [await store.read(count_pending_tasks, user) for user in ("alice", "bob", None)] == [5, 0, 5]
    assert [await store.read(count_pending_tasks_of_account, account) for account in ("physics", "none")] == [5, 0]
    assert await store.read(which_are_arrays, [array, 99]) == {array}


async def test_the_first_tasks_get_records_with_the_values_of_their_array(store):
    array = await submit_array(store, comment="why")
    tasks = await store.write(split_first, array, 3, "scheduler", NOW + 5)
    assert (await record(store, array))["array"] == "3-9"
    rows = [await record(store, task) for task in tasks]
    assert [(row["array_job"], row["array_task"]) for row in rows] == [(array, 0), (array, 1), (array, 2)]
    assert {(row["state"], row["submitted_at"], row["user"], row["comment"]) for row in rows} == {
        ("pending", NOW, "alice", "why")
    }
    assert [row["event"] for row in await store.rows("job_event", job_id=tasks[0])] == ["split"]
    assert [row["event"] for row in await store.rows("job_event", job_id=array)] == ["submit", "split"]
    assert await store.write(split_first, 99, 1, "scheduler", NOW) == []


async def test_named_tasks_leave_a_hole(store):
    array = await submit_array(store)
    found = await store.write(split_these, array, parse("2,5-6,40"), "alice", NOW)
    assert sorted(found) == [2, 5, 6]
    assert (await record(store, array))["array"] == "0-1,3-4,7-9"
    assert await store.write(split_these, array, parse("2"), "alice", NOW) == {}
    assert await store.read(records_of, array, parse("2,3")) == {2: found[2]}
    await where_each_index_is(store, array)


async def test_tasks_keep_the_request_that_their_array_had_when_they_left_it(store):
    array = await submit_array(store, comment="first")
    [one] = await store.write(split_first, array, 1, "x", NOW)

    def change(connection):
        columns = {"request": msgspec.json.encode(JobRequest(command=["new"])).decode()}
        from rankd.store.record.job import apply_changes

        event = Change(job=array, state=State.PENDING, event=Event.UPDATE, actor="alice", columns=columns)
        apply_changes(connection, [event], NOW)
        forget_requests(connection, [array])

    await store.write(change)
    [two] = await store.write(split_first, array, 1, "x", NOW)
    requests = [msgspec.json.decode((await record(store, job))["request"]) for job in (one, two)]
    assert [found["command"] for found in requests] == [["true"], ["new"]]
    assert len(await store.rows("array_requests", array_job=array)) == 2


async def test_a_set_with_too_many_ranges_is_not_stored(store):
    array = await submit_array(store, "0-49999")
    odd = parse("1-49998:3")
    with pytest.raises(Refused) as refused:
        await store.write(split_these, array, odd, "x", NOW)
    assert refused.value.code == "array_too_large"
    assert (await record(store, array))["array"] == "0-49999"


# --- life ---------------------------------------------------------------------------------------------------


async def test_an_array_runs_out_and_ends_with_its_last_task(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-2")
    assert await start(store, array, 2) == 2
    assert await numbers(store, array) == {
        "n_pending": 1, "n_open": 2, "n_active": 2, "n_completed": 0, "n_failed": 0, "n_cancelled": 0,
    }  # fmt: skip
    assert await start(store, array, 5) == 1, "there is one task left"
    row = await record(store, array)
    assert (row["state"], row["array"], row["started_at"]) == ("running", None, None)
    tasks = sorted(job["id"] for job in await store.rows("jobs", array_job=array))
    [given] = await store.take("n1")
    assert [(one.array.job, one.array.task, one.array.tasks) for one in given.starts] == [
        (array, index, 3) for index in range(3)
    ]
    for allocation, task in enumerate(tasks[:2], start=1):
        await end(store, allocation, task)
    assert (await record(store, array))["state"] == "running"
    await end(store, 3, tasks[2])
    assert (await record(store, array))["state"] == "completed"
    assert (await numbers(store, array))["n_completed"] == 3
    assert [row["event"] for row in await store.look(job_events, array)] == ["submit", "split", "run_out", "complete"]


async def test_an_array_with_a_failed_task_has_failed(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-1")
    await start(store, array, 2)
    await store.take("n1")
    one, two = sorted(job["id"] for job in await store.rows("jobs", array_job=array))
    await end(store, 1, one, status=3)
    await end(store, 2, two)
    assert (await record(store, array))["state"] == "failed"


async def test_an_overtaken_array_starts_nothing(store):
    await store.add_nodes("n1")
    array = await submit_array(store)
    stale = NewAllocation(
        job=array, revision=0, nodes=("n1",), resources={}, charge_rate=1.0, generation=0, rank=1, of_array=True
    )
    assert await store.write(commit_allocations, [stale] * 3, 1, NOW) == 0
    assert (await record(store, array))["array"] == TEN


async def test_cancelling_all_of_a_waiting_array_cancels_it(store):
    array = await submit_array(store)
    targets = await store.read(targets_of, [array])
    reply = await store.write(act, targets.found, ALICE, NOW + 5, cancel)
    assert (reply.done, reply.failed) == ([array], [])
    row = await record(store, array)
    assert (row["state"], row["array"], row["ended_at"]) == ("cancelled", None, NOW + 5)
    assert set((await where_each_index_is(store, array)).values()) == {"cancelled"}


async def test_cancelling_the_rest_of_an_array_leaves_what_runs(store):
    await store.add_nodes("n1")
    array = await submit_array(store)
    await start(store, array, 1)
    await store.write(act, [array], ALICE, NOW + 5, cancel)
    assert (await record(store, array))["state"] == "running"
    [task] = await store.rows("jobs", array_job=array)
    await store.take("n1")
    await end(store, 1, task["id"])
    assert (await record(store, array))["state"] == "failed", "9 of its tasks did not complete"


async def test_the_last_cancelled_task_ends_the_array(store):
    array = await submit_array(store, "0-1")
    for index in range(2):
        await store.write(act, [Target(array, index)], ALICE, NOW + index, cancel)
    assert (await record(store, array))["state"] == "cancelled"
    assert await numbers(store, array) == {
        "n_pending": 0, "n_open": 0, "n_active": 0, "n_completed": 0, "n_failed": 0, "n_cancelled": 2,
    }  # fmt: skip


async def test_to_which_applications_and_arrays_jobs_belong(store):
    array = await submit_array(store, "0-1", application="app")
    [task] = await store.write(split_first, array, 1, "x", NOW)
    [single] = await store.submit("alice")
    found = await store.read(memberships, [array, task, single, 999])
    assert (set(found.applications), found.arrays) == ({array, task}, {task: array})
    assert await store.read(memberships, []) == ({}, {})


async def test_numbers_follow_the_events_of_tasks(store):
    array = await submit_array(store, "0-1")
    tasks = await store.write(split_first, array, 2, "x", NOW)

    def lose(connection):
        change = Change(job=tasks[0], state=State.PENDING, event=Event.ALLOCATE, actor="x")
        return count_tasks(connection, [change], {tasks[0]: array}, NOW), ends_of(connection, [array], NOW)

    assert await store.write(lose) == ([], [])
    assert (await numbers(store, array))["n_active"] == 1
    await store.write(insert_arrays, [(999, accepted(array=parse_array("5")))])
    assert await store.read(which_are_arrays, [999]) == {999}
    await store.write(end_arrays, [array], NOW)
    assert (await record(store, array))["state"] == "running", "a task is open"


async def test_the_rest_of_an_array_is_cancelled_by_one_event(store):
    array = await submit_array(store)
    event = Change(job=array, state=State.PENDING, event=Event.CANCEL, actor="x", columns={"ended_at": NOW})
    [found] = await store.write(cancel_rests, [event], NOW)
    assert (found.event, found.detail) == (Event.CANCEL, {"tasks": TEN})


# --- names --------------------------------------------------------------------------------------------------


async def test_names_are_records_tasks_or_nothing(store):
    array = await submit_array(store)
    [single] = await store.submit("alice")
    found = await store.write(split_these, array, parse("3"), "x", NOW)
    wanted = await store.read(targets_of, [single, f"{array}_[2-4,12]", f"{single}_1", str(array)])
    assert wanted.found == [
        Target(single),
        Target(array, of_whole=True, array=array),
        Target(found[3]),
        Target(array, 2),
        Target(array, 4),
    ]
    assert [(one.id, one.code) for one in wanted.failed] == [
        (f"{array}_12", "unknown_job"),
        (f"{single}_1", "unknown_job"),
    ]
    with pytest.raises(Refused, match="at most 10000 tasks"):
        await store.read(targets_of, [f"{array}_[0-10000]"])


async def test_a_task_is_held_and_released_alone(store):
    array = await submit_array(store)
    reply = await store.write(act, [Target(array, 4)], ALICE, NOW, hold)
    [task] = reply.done
    assert ((await record(store, task))["held"], (await record(store, array))["held"]) == (1, 0)
    [target] = (await store.read(targets_of, [f"{array}_4"])).found
    await store.write(act, [target], ALICE, NOW + 9, release)
    row = await record(store, task)
    assert (row["held"], row["eligible_at"]) == (0, NOW + 9)


async def test_what_an_action_cannot_change_of_an_array_is_passed_over(store):
    array = await submit_array(store)
    await store.write(act, [Target(array, 4)], ALICE, NOW, hold)
    targets = (await store.read(targets_of, [array])).found
    reply = await store.write(act, targets, ALICE, NOW, release)
    assert (len(reply.done), reply.failed) == (1, [])
    refused = await store.write(act, [Target(array, 4)], ALICE, NOW, release)
    assert [one.code for one in refused.failed] == ["not_held"]


async def test_nobody_else_splits_an_array(store):
    array = await submit_array(store)
    reply = await store.write(act, [Target(array, 1)], Submitter("bob", privileged=False), NOW, hold)
    assert [(one.id, one.code) for one in reply.failed] == [(f"{array}_1", "not_owner")]
    assert (await record(store, array))["array"] == TEN
    tried = await store.write(act, [Target(array, 1)], ROOT, NOW, hold, dry_run=True)
    assert (tried.done, (await record(store, array))["array"]) == ([array], TEN)


async def test_targets_get_records_in_order(store):
    array = await submit_array(store)
    found = await store.write(split_targets, [Target(array, 5), Target(array, 2)], "x", NOW)
    assert [(await record(store, job))["array_task"] for job in found] == [2, 5]


async def test_looking_at_a_task_makes_no_record(store):
    array = await submit_array(store)
    assert await store.look(record_of, f"{array}_3") == (array, 3, False)
    shown = await store.look(job_detail, f"{array}_3")
    assert (shown["id"], shown["array_task"], shown["state"], shown["array"]) == (array, 3, "pending", TEN)
    with pytest.raises(Refused, match="there is no job"):
        await store.look(record_of, f"{array}_10")
    [task] = await store.write(split_first, array, 1, "x", NOW)
    assert await store.look(record_of, f"{array}_0") == (task, None, False)
    assert await store.look(shown_records_of, [array]) == [array, task]
    assert await store.look(shown_records_of, [f"{array}_[0,7]"]) == [task, array]
    wanted = await store.look(by_record, JobFilter(id=array))
    assert wanted.ids == [array, task]
    assert await store.look(job_ids, JobFilter(ids=[f"{array}_0"])) == [task]


# --- what the scheduler follows -----------------------------------------------------------------------------


async def test_the_scheduler_reads_arrays_and_tasks_of_limited_ones(store):
    array = await submit_array(store, "0-9%2")
    other = await submit_array(store, "0-3")
    assert [(one.id, one.tasks, one.limit) for one in await store.read(all_arrays)] == [
        (array, 10, 2),
        (other, 4, None),
    ]
    [row] = await store.rows("jobs", id=other)
    held = await store.write(split_these, array, parse("7"), "x", NOW)
    alone = await store.write(split_these, other, parse("1"), "x", NOW)
    changed = await store.read(changed_arrays, row["revision"])
    assert [(one.id, one.tasks) for one in changed] == [(array, 9), (other, 3)]
    tasks = [(held[7], array, 2, 7), (alone[1], other, None, 1)]
    assert sorted(await store.read(all_tasks)) == sorted(await store.read(changed_tasks, row["revision"])) == tasks
    assert await store.read(indices_in, [array, other]) == {array: parse("0-6,8-9"), other: parse("0,2-3")}


async def test_whose_tasks_get_records_is_known(store):
    job = await submit_array(store)
    [other] = await store.submit("bob")
    assert await store.read(owners_of, {job: parse("0-2,7"), 99: parse("1")}) == {job: Owner("alice", "physics", 4)}
    assert await store.read(owners_of, {other: parse("0")}) == {other: Owner("bob", "physics", 1)}


async def test_an_array_is_read_once_however_many_of_its_tasks_are_named(store):
    """Its indices may be a megabyte of text: 10,000 names would take a quarter of an hour."""
    array = await submit_array(store, "0-999")
    statements = []

    class Noting:
        """A reader, and its cursor, that notes statements."""

        def __init__(self, real):
            self._real = real

        def cursor(self):
            return Noting(self._real.cursor())

        def execute(self, sql, *rest):
            statements.append(sql)
            return self._real.execute(sql, *rest)

        def __getattr__(self, name):
            return getattr(self._real, name)

    def counted(connection):
        return shown_records_of(Noting(connection), [f"{array}_{task}" for task in range(1_000)])

    assert await store.look(counted) == [array]
    assert sum("cancelled" in statement for statement in statements) == 1


def test_few_changes_of_large_arrays_share_a_transaction_since_each_changes_the_whole_array():
    assert weight_of([Target(1), Target(2)]) == 2
    assert weight_of([Target(1, task=3)]) * 5 >= PART
    assert weight_of([Target(1, task=task) for task in range(100)]) == 100


async def test_of_closed_arrays_nothing_is_looked_up(store):
    array = await submit_array(store, "0-3")
    single, foreign = (await store.submit("alice"))[0], (await store.submit("bob"))[0]
    asker = Submitter("alice", privileged=False)
    assert await store.read(closed_jobs, [array, single, foreign, 99], asker, "job.cancel") == {foreign}
    assert await store.read(closed_jobs, [array, foreign], ROOT, "job.cancel") == set()
    names = [f"{array}_[2-5]", array, single, foreign]
    closed = await store.read(closed_jobs, jobs_in(names), Submitter("bob", privileged=False), "job.cancel")
    assert closed == {array, single}
    wanted = await store.read(targets_of, names, closed)
    tasks = [Target(array, index) for index in range(2, 6)]
    assert wanted == ([Target(array), Target(single), Target(foreign), *tasks], [])
