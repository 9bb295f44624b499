"""What is known of an array as a whole, and of its tasks that never had records."""

import pytest
from builder import NOW
from contract.arrays import end, record, start, submit_array
from contract.store import ALICE

from rankd.cli.common.freshness import Known
from rankd.cli.look.queue import counted_once, fields
from rankd.core.change.job_action import cancel, release
from rankd.core.change.job_change import Change
from rankd.core.errors import InvalidTransition
from rankd.core.model.index_set import parse
from rankd.core.model.job import Event, State
from rankd.store.look.accounting import accounting, accounting_ids, accounting_of, count_accounted
from rankd.store.look.job_detail import job_detail, job_events
from rankd.store.look.job_list import MANY, count_listed, jobs, listed_ids
from rankd.store.look.job_runs import job_runs
from rankd.store.look.page import accounting_page, job_page
from rankd.store.look.task_row import as_task, cancellation, mark_arrays, sets_of, who_cancelled, without_records
from rankd.store.look.why import why
from rankd.store.record.array import split_first
from rankd.store.record.array_match import Outcome, match_tasks
from rankd.store.record.job import apply_changes
from rankd.store.record.job_action import act
from rankd.store.record.job_name import targets_of
from rankd.store.record.job_story import name_of_record
from rankd.wire.message import AccountingFilter, JobList


async def test_an_array_has_the_first_start_the_last_end_and_the_highest_exit_status_of_its_tasks(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-3")
    await start(store, array, 3)
    await store.take("n1")
    await store.report("n1", 2, array + 2, "started", at=NOW + 4)
    assert (await record(store, array))["started_at"] == NOW + 4
    await store.report("n1", 1, array + 1, "started", at=NOW + 3)
    await store.report("n1", 3, array + 3, "started", at=NOW + 5)
    for allocation, seconds, status in ((3, 9, 2), (2, 8, 7), (1, 7, 1)):  # the last report is of the first end
        await store.report(
            "n1", allocation, array + allocation, "ended", at=NOW + seconds, exit_status=status, signal=allocation
        )
    row = await record(store, array)
    assert (row["state"], row["started_at"], row["ended_at"]) == ("pending", NOW + 3, None)
    await start(store, array, 1)
    await store.take("n1")
    await store.report("n1", 4, array + 4, "started", at=NOW + 5)
    await store.report("n1", 4, array + 4, "ended", at=NOW + 6, exit_status=0)
    row = await record(store, array)
    assert (row["state"], row["started_at"], row["ended_at"]) == ("failed", NOW + 3, NOW + 9)
    assert (row["exit_status"], row["signal"]) == (7, 2), "those of one task"
    events = [event["event"] for event in await store.look(job_events, array)]
    assert events == ["submit", "split", "run_out", "fail"], "a start and an end of a task are no events of the array"


async def test_an_array_that_never_started_has_no_start(store):
    array = await submit_array(store, "0-1")
    await store.write(split_first, array, 2, "x", NOW)
    assert (await record(store, array))["started_at"] is None
    await store.write(act, (await store.read(targets_of, [array])).found, ALICE, NOW + 5, cancel)
    row = await record(store, array)
    assert (row["state"], row["started_at"], row["ended_at"]) == ("cancelled", None, NOW + 5)


async def test_an_array_ends_when_its_rest_is_cancelled_behind_its_last_task(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-1")
    await start(store, array, 1)
    await store.take("n1")
    await end(store, 1, array + 1)
    await store.write(act, [array], ALICE, NOW + 8, cancel)
    row = await record(store, array)
    assert (row["state"], row["started_at"], row["ended_at"]) == ("failed", NOW + 2, NOW + 8)


# --- tasks without records ----------------------------------------------------------------------------------


async def with_a_cancelled_rest(store):
    """An array 0-9 of which task 0 has failed, and alice has cancelled the others, which had no records."""
    await store.add_nodes("n1")
    array = await submit_array(store)
    await start(store, array, 1)
    await store.take("n1")
    await end(store, 1, array + 1, status=3)
    await store.write(act, [array], ALICE, NOW + 8, cancel)
    return array


def shown(rows):
    names = ("id", "array_job", "array_task", "array", "state", "exit_status", "ended_at", "cancelled_by")
    return [tuple(row[name] for name in names) for row in rows]


async def test_accounting_has_a_row_for_the_tasks_that_were_cancelled_without_records(store):
    array = await with_a_cancelled_rest(store)
    rest = (array, array, None, "1-9", "cancelled", None, NOW + 8, "alice")
    task = (array + 1, array, 0, None, "failed", 3, NOW + 3, None)
    whole = (array, None, None, None, "failed", 3, NOW + 8, None)
    assert shown(await store.look(accounting, AccountingFilter(id=array))) == [whole, rest, task]
    assert shown(await store.look(accounting, AccountingFilter())) == [whole, rest, task]
    assert shown(await store.look(accounting, AccountingFilter(states=["cancelled"]))) == [rest]
    assert shown(await store.look(accounting, AccountingFilter(states=["failed"]))) == [whole, task]
    assert await store.look(accounting, AccountingFilter(since=NOW + 9)) == []
    assert await store.look(count_accounted, AccountingFilter(states=["cancelled"])) == 1
    assert await store.look(accounting_ids, AccountingFilter(states=["cancelled"]), 5) == [array]


async def test_accounting_of_a_named_task_says_what_became_of_it(store):
    array = await with_a_cancelled_rest(store)
    one, some = AccountingFilter(ids=[f"{array}_2"]), AccountingFilter(ids=[f"{array}_[0,2-3]"])
    assert shown(await store.look(accounting, one)) == [(array, array, 2, None, "cancelled", None, NOW + 8, "alice")]
    assert [row[1:4] for row in shown(await store.look(accounting, some))] == [
        (array, None, "2-3"),
        (array, 0, None),
    ]
    assert len(await store.look(accounting_of, [array], AccountingFilter(ids=[array, f"{array}_2"]))) == 2


async def test_the_runs_of_an_array_name_a_task_that_has_started(store):
    waits = await submit_array(store, "3-5")
    assert [(await store.look(job_runs, name)).first_task for name in (waits, f"{waits}_4")] == [3, None]
    array = await with_a_cancelled_rest(store)
    found = await store.look(job_runs, array)
    assert (found.state, found.first_task) == ("failed", 0), "also once it has ended"
    assert (await store.look(job_runs, f"{array}_2")).state == "cancelled"


async def test_accounting_of_a_named_task_that_is_pending_shows_no_run(store):
    await store.add_nodes("n1")
    array = await submit_array(store)
    await start(store, array, 1)
    await store.take("n1")
    await end(store, 1, array + 1, status=3)
    [row] = await store.look(accounting, AccountingFilter(ids=[f"{array}_5"]))
    assert [row[name] for name in ("array_job", "array_task", "state", "started_at")] == [array, 5, "pending", None]
    assert shown([row])[0][5:] == (None, None, None)
    assert await store.look(accounting, AccountingFilter(ids=[f"{array}_5"], states=["failed"])) == []


async def test_pages_of_accounting_keep_an_array_and_its_cancelled_tasks_together(store):
    array = await with_a_cancelled_rest(store)
    found = await store.look(accounting_page, AccountingFilter(limit=1, after=0, count=True))
    assert ([row["id"] for row in found.rows], found.more, found.besides) == ([array, array], True, {"total": 2})
    await store.submit("alice")
    early = AccountingFilter(limit=1, states=["cancelled"], since=NOW + 9)
    assert (await store.look(accounting_page, early)).rows == [], "the rest was cancelled before"


async def test_a_list_of_cancelled_jobs_has_the_tasks_that_were_cancelled_without_records(store):
    array = await with_a_cancelled_rest(store)
    await store.submit("alice")

    def names(rows):
        return [(row["id"], row["array_job"], row["array_task"], row["array"], row["state"]) for row in rows]

    rest = (array, array, None, "1-9", "cancelled")
    cancelled = JobList(states=["cancelled"])
    assert names(await store.look(jobs, cancelled)) == [rest]
    assert names(await store.look(jobs, JobList(states=["cancelled", "failed"]))) == [
        (array, None, None, None, "failed"), rest, (array + 1, array, 0, None, "failed"),
    ]  # fmt: skip
    assert names(await store.look(jobs, JobList(states=["cancelled"], ids=[f"{array}_2"]))) == [
        (array, array, 2, None, "cancelled")
    ]
    assert names(await store.look(jobs, JobList(states=["failed"]))) == names(
        await store.look(jobs, JobList(states=["failed"], limit=MANY + 1))
    )
    assert names(await store.look(jobs, JobList(states=["cancelled"], limit=MANY + 1))) == [rest]
    assert await store.look(listed_ids, cancelled) == [array]
    assert await store.look(count_listed, cancelled) == 1
    found = await store.look(sets_of, [array])
    assert list(found) == [array]
    [whole] = await store.look(jobs, JobList(ids=[array], tasks=False))
    [accounted] = await store.look(accounting, AccountingFilter(ids=[array], states=["failed"], limit=1, after=0))
    assert (whole["has_tasks"], accounted["has_tasks"]) == (True, True), "of its tasks that ran; each has a row"
    rows = [
        {"id": array, "array_job": None},
        {"id": array + 1, "array_job": array},
        {"id": array + 9, "array_job": None},
    ]
    await store.look(mark_arrays, rows)
    assert [row["has_tasks"] for row in rows] == [True, False, False]
    [task] = await store.look(without_records, whole, found[array], parse("3"))
    assert (task["array_task"], task["cause"], whole["array_task"]) == (3, "cancel", None)
    page = await store.look(job_page, JobList(states=["cancelled"], count=True))
    assert (names(page.rows), page.besides) == ([rest], {"total": 1})
    [row] = page.rows
    assert counted_once([row]) == [row]
    assert fields(Known({}, {}, NOW))["i"].shown(row) == f"{array}_[1-9]"


async def test_a_cancelled_task_without_a_record_says_who_when_and_why(store):
    array = await with_a_cancelled_rest(store)
    detail = await store.look(job_detail, f"{array}_2")
    assert [detail[name] for name in ("state", "ended_at", "cancelled_by", "started_at", "exit_status")] == [
        "cancelled", NOW + 8, "alice", None, None,
    ]  # fmt: skip
    said = await store.look(why, f"{array}_2")
    assert [said[name] for name in ("state", "array_job", "array_task", "ended_at", "cancelled_by", "message")] == [
        "cancelled", array, 2, NOW + 8, "alice", None,
    ]  # fmt: skip
    assert (await store.look(cancellation, array, 2)) == (NOW + 8, "alice", "cancel")
    assert (await store.look(cancellation, array, 0)) == (None, None, None)
    assert (await store.look(why, array))["exit_status"] == 3


async def test_a_task_that_can_never_start_says_so(store):
    [awaited] = [await submit_array(store)]
    array = await submit_array(store, depends_on=[{"type": "aftercorr", "job": awaited}])
    found = Outcome(parse("0"), parse("2,4"))
    await store.write(match_tasks, array, found, NOW + 6, expected=[awaited], is_all=True, cancels=True)
    said = await store.look(why, f"{array}_4")
    assert (said["state"], said["ended_at"], said["rank"]) == ("cancelled", NOW + 6, None)
    assert said["message"] == "a dependency can't be met any more: aftercorr"
    assert (await store.look(why, f"{array}_5"))["state"] == "pending"
    assert (await store.look(cancellation, array)).cause == "dependency"
    rows = await store.look(accounting, AccountingFilter(id=array))
    assert [(row["array"], row["state"]) for row in rows] == [("0-1,3,5-9", "pending"), ("2,4", "cancelled")]


async def test_a_task_says_whether_its_own_counterpart_keeps_it(store):
    awaited = await submit_array(store)
    array = await submit_array(store, depends_on=[{"type": "aftercorr", "job": awaited}])
    assert (await store.look(why, f"{array}_3"))["reason"] == "dependency", "nobody has looked yet"
    found = Outcome(parse("0"), parse("2,4"))
    await store.write(match_tasks, array, found, NOW + 6, expected=[awaited], is_all=True, cancels=False)
    said = {task: await store.look(why, f"{array}_{task}") for task in (0, 3, 4)}
    assert (said[3]["reason"], said[4]["reason"]) == ("dependency", "dependency never satisfied")
    assert said[4]["reason_fact"] == "aftercorr: the task 4 that it waits for did not complete"
    assert said[3]["reason_fact"] == "aftercorr: the task 3 that it waits for has not ended"
    assert said[0]["reason"] not in ("dependency", "dependency never satisfied")


async def test_who_cancelled_a_job_is_known_from_its_last_event(store):
    one, two = await store.submit("alice", "alice")
    await store.write(act, [one], ALICE, NOW + 5, cancel)
    assert await store.look(who_cancelled, [one, two]) == {one: "alice"}
    assert await store.look(who_cancelled, []) == {}
    array = await submit_array(store, "0-1")
    await store.write(split_first, array, 2, "x", NOW)
    await store.write(act, (await store.read(targets_of, [array])).found, ALICE, NOW + 5, cancel)
    assert await store.look(who_cancelled, [array]) == {}, "rankd has ended it with its last task"


async def test_the_row_of_a_task_has_nothing_of_the_whole_array():
    row = {"started_at": 1.0, "ended_at": 9.0, "exit_status": 3, "signal": 1, "state": State.RUNNING.value}
    pending = as_task(row, None)
    assert (pending["state"], pending["started_at"], pending["ended_at"]) == ("pending", None, None)


# --- names in messages --------------------------------------------------------------------------------------


async def test_messages_name_tasks_with_and_without_records_as_people_do(store):
    array = await submit_array(store)
    await store.write(split_first, array, 1, "x", NOW)
    targets = (await store.read(targets_of, [f"{array}_[0,3]"])).found
    reply = await store.write(act, targets, ALICE, NOW, release)
    assert [(one.id, one.message) for one in reply.failed] == [
        (f"{array}_0", f"job {array}_0 is not held"),
        (f"{array}_3", f"job {array}_3 is not held"),
    ]


async def test_an_impossible_event_names_the_task(store):
    array = await submit_array(store)
    [single] = await store.submit("alice")
    [task] = await store.write(split_first, array, 1, "x", NOW)
    wrong = Change(job=task, state=State.COMPLETED, event=Event.START, actor="x")
    with pytest.raises(InvalidTransition, match=f"job {array}_0 is completed"):
        await store.write(apply_changes, [wrong], NOW)
    assert await store.read(name_of_record, task) == f"{array}_0"
    assert await store.read(name_of_record, single) is None


@pytest.mark.parametrize(("limit", "said"), [(1, "1 task of the array runs, "), (2, "2 tasks of the array run, ")])
async def test_the_limit_of_an_array_is_one_task_or_several(store, limit, said):
    await store.add_nodes("n1")
    array = await submit_array(store, f"0-9%{limit}")
    await start(store, array, limit)
    row = await record(store, array)
    assert (row["reason"], row["reason_fact"]) == ("array limit", f"{said}as many as may run at a time")


async def test_a_singleton_names_the_task_for_which_it_waits(store):
    array = await submit_array(store, "0", name="same")
    await store.write(split_first, array, 1, "x", NOW)
    [job] = await store.submit("alice", request={"name": "same", "depends_on": [{"type": "singleton"}]})
    assert (await record(store, job))["reason_fact"] == f"job {array}_0 of the same user and name has not ended"
