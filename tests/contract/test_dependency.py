"""Dependencies on arrays and tasks, by index, and on earlier jobs of the same name; and what can never start."""

import json

import pytest
from builder import NOW, accepted
from contract.store import ALICE
from contract.test_array import end, numbers, record, start, submit_array

from rankd.core.admission.dependency import Progress
from rankd.core.change.job_action import cancel, hold
from rankd.core.model.index_set import parse, read
from rankd.core.model.job import Dependency, State
from rankd.mirror.job_table import JobTable, Membership
from rankd.services.prioritizer.eligibility import _look
from rankd.store.feed.job import changed_jobs, load_jobs
from rankd.store.feed.pending_kind import all_arrays
from rankd.store.record.array import split_first
from rankd.store.record.array_match import Outcome, match_again, match_tasks, outcome_of, waiting_array
from rankd.store.record.dependency import (
    blocked_jobs,
    indices_of,
    insert_waits,
    jobs_of_user,
    known_jobs,
    newest_of_name,
    predecessors_of,
    progress_of,
    reasons_of,
    replace_waits,
    show_reason,
)
from rankd.store.record.descendant import descendants_of
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.job_action import act
from rankd.store.record.job_name import Target, targets_of
from rankd.store.record.unmet import cancel_unmet


def after(kind, job=None):
    return Dependency(type=kind, job=job)


async def submit(store, *dependencies, **request):
    [job] = await store.submit("alice", request={"depends_on": list(dependencies), **request})
    return job


async def act_on(store, name, decide):
    targets = (await store.read(targets_of, [name])).found
    return await store.write(act, targets, ALICE, NOW, decide)


async def match(store, job, array, *, completed="", unmet="", cancels=False, is_all=True):
    found = Outcome(read(completed), read(unmet))
    return await store.write(match_tasks, job, found, NOW + 5, expected=[array], is_all=is_all, cancels=cancels)


async def sets(store, job):
    [row] = await store.rows("arrays", job_id=job)
    return row["eligible"], row["n_eligible"], row["unmet"], row["n_unmet"]


# --- progress -----------------------------------------------------------------------------------------------


async def test_the_progress_of_an_array_and_of_its_tasks(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-3")
    waits = Progress(State.PENDING, has_begun=False)
    assert await store.read(progress_of, [array, f"{array}_0", f"{array}_9", 99]) == {array: waits, f"{array}_0": waits}
    await start(store, array, 2)
    await end(store, 1, array + 1)
    found = await store.read(progress_of, [array, f"{array}_0", f"{array}_1"])
    assert found == {array: waits, f"{array}_0": Progress(State.COMPLETED, has_begun=True), f"{array}_1": Progress(
        State.ALLOCATED, has_begun=False)}  # fmt: skip
    await act_on(store, f"{array}_3", cancel)
    assert (await store.read(progress_of, [array]))[array].is_spoilt
    assert await store.read(known_jobs, [array, f"{array}_3", f"{array}_4"]) == {array, f"{array}_3"}


async def test_names_of_other_users_jobs_can_be_left_out(store):
    array, job = await submit_array(store, "0-3"), await submit(store)
    [foreign] = await store.submit("bob")
    names = [array, f"{array}_3", f"{array}_9", job, foreign, 99]
    assert await store.read(jobs_of_user, names, None) == set(names)
    assert await store.read(jobs_of_user, names, "alice") == {array, f"{array}_3", f"{array}_9", job}
    assert await store.read(known_jobs, names, "alice") == {array, f"{array}_3", job}
    assert await store.read(known_jobs, names, "bob") == {foreign}
    assert await store.read(jobs_of_user, [], "alice") == set()


async def test_an_array_has_begun_once_all_its_tasks_have(store):
    await store.add_nodes("n1")
    array = await submit_array(store, "0-1")

    async def has_begun():
        return (await store.read(progress_of, [array]))[array].has_begun

    await start(store, array, 2)
    assert not await has_begun()
    await store.report("n1", 1, array + 1, "started")
    assert not await has_begun()
    await store.report("n1", 2, array + 2, "started")
    assert await has_begun()


async def test_a_task_that_is_cancelled_without_a_record_has_ended(store):
    array = await submit_array(store, "0-3")
    await act_on(store, f"{array}_0", hold)
    await act_on(store, array, cancel)
    assert (await store.read(progress_of, [f"{array}_2"]))[f"{array}_2"].state is State.CANCELLED


async def test_the_indices_of_an_array_are_those_that_were_submitted(store):
    await store.add_nodes("n1")
    array, job = await submit_array(store, "1,3,7-9%2"), await submit(store)
    await start(store, array, 2)
    assert await store.read(indices_of, [array, job]) == {array: parse("1,3,7-9")}


@pytest.mark.parametrize("has_record", [True, False])
async def test_jobs_behind_a_cancelled_task_are_looked_at_at_once(store, has_record):
    """By the table that the prioritizer follows events with, without a pass over all jobs."""
    array = await submit_array(store, "0-3")
    other = await submit_array(store, "0-3")
    if has_record:
        await act_on(store, f"{array}_1", hold)
    behind = {
        "task": await submit(store, after("afterany", f"{array}_1")),
        "whole": await submit(store, after("afterok", array)),
        "index": await submit_array(store, "0-3", depends_on=[{"type": "aftercorr", "job": array}]),
    }
    unconcerned = [await submit(store, after("afterany", f"{array}_2")), await submit(store, after("afterok", other))]
    table = JobTable()
    table.load(await store.read(load_jobs), Membership(dict.fromkeys(range(99), 0), frozenset()))
    table.blocked.take_due(NOW)
    await act_on(store, f"{array}_1", cancel)
    table.apply(
        await store.read(changed_jobs, table.revision, table.shapes),
        Membership(dict.fromkeys(range(99), 0), frozenset()),
    )
    due = table.blocked.take_due(NOW)
    assert {behind["task"], behind["whole"]} <= due.jobs
    assert unconcerned[1] not in due.jobs
    assert due.tasks.get(behind["index"]) == {1} or behind["index"] in due.arrays
    found = await store.read(lambda c: _look(c, table.blocked.of(due.jobs), NOW))
    assert (found.reasons[behind["task"]], found.reasons[behind["whole"]]) == (None, "dependency never satisfied")


# --- singletons ---------------------------------------------------------------------------------------------


async def test_a_singleton_waits_for_the_last_earlier_job_of_its_user_and_name(store):
    jobs = [await submit(store, name=name) for name in ("a", "a", "b")]
    [other] = await store.submit("bob", request={"name": "a"})
    one = await submit(store, after("singleton"), name="a")
    later = await submit(store, name="a")
    two = await submit(store, after("singleton"), name="a")
    assert await store.read(predecessors_of, [one, two, jobs[2]]) == {one: jobs[1], two: later}
    await act_on(store, jobs[1], cancel)
    assert await store.read(predecessors_of, [one, other]) == {one: jobs[0]}
    await act_on(store, jobs[0], cancel)
    assert await store.read(predecessors_of, [one]) == {}
    [blocked] = await store.read(blocked_jobs, [one])
    assert await store.read(reasons_of, [blocked], NOW) == {one: None}


async def test_a_singleton_that_would_be_submitted_now_waits_for_the_newest_of_its_user_and_name(store):
    jobs = [await submit(store, name=name) for name in ("a", "a", "b")]
    await store.submit("bob", request={"name": "a"})
    assert await store.read(newest_of_name, "alice", "a") == jobs[1]
    await act_on(store, jobs[1], cancel)
    assert await store.read(newest_of_name, "alice", "a") == jobs[0]
    assert await store.read(newest_of_name, "alice", "c") is None


async def test_tasks_of_one_array_do_not_wait_for_each_other(store):
    array = await submit_array(store, "0-3", depends_on=[{"type": "singleton"}], name="a")
    await act_on(store, f"{array}_2", hold)
    assert await store.read(predecessors_of, [array, array + 1]) == {}


# --- by index -----------------------------------------------------------------------------------------------


async def by_index(store, array="0-3", **request):
    first = await submit_array(store, array)
    second = await submit_array(store, array, depends_on=[{"type": "aftercorr", "job": first}], **request)
    return first, second


async def test_an_array_by_index_is_one_record_that_is_blocked(store):
    first, second = await by_index(store)
    assert await sets(store, second) == (None, 0, None, 0)
    loaded = await store.read(load_jobs)
    [blocked] = loaded.blocked
    assert (blocked.job, blocked.by_index.is_known, loaded.tasks[second]) == (second, False, 0)
    waiting = await store.read(waiting_array, second)
    assert (waiting.awaited, waiting.array) == ([first], "0-3")
    assert await store.read(waiting_array, first) is None


async def test_the_ends_of_counterparts(store):
    await store.add_nodes("n1")
    first, _ = await by_index(store, "0-9")
    await start(store, first, 3)
    await end(store, 1, first + 2)
    await end(store, 2, first + 3, status=1)
    assert await store.read(outcome_of, [first], read("0-9")) == Outcome(read("0"), read("1"))
    assert await store.read(outcome_of, [first], read("1-5")) == Outcome((), read("1"))
    assert await store.read(outcome_of, [99], read("0-3")) == Outcome((), read("0-3"))
    await act_on(store, first, cancel)
    assert (await store.read(outcome_of, [first], read("0-9"))).unmet == read("1,3-9")


async def test_tasks_whose_counterparts_completed_may_start_and_no_others(store):
    await store.add_nodes("n1")
    first, second = await by_index(store)
    assert not await match(store, second, first, completed="2", is_all=False), "the first look comes first"
    assert await match(store, second, first, completed="1,3")
    row = await record(store, second)
    assert (row["reason"], row["eligible_at"], row["array"]) == (None, NOW + 5, "0-3")
    assert (row["array_eligible"], row["array_unmet"]) == ("1,3", "")
    assert [(one.id, one.tasks) for one in await store.read(all_arrays)] == [(first, 4), (second, 2)]
    before = (await store.rows("jobs", id=second))[0]
    assert await match(store, second, first, completed="0", is_all=False)
    after_ = (await store.rows("jobs", id=second))[0]
    assert after_["settled"] == before["revision"], "it keeps its rank"
    assert await store.write(split_first, second, 2, "x", NOW) == [second + 1, second + 2]
    assert [task["array_task"] for task in await store.rows("jobs", array_job=second)] == [0, 1]
    assert await sets(store, second) == ("3", 1, "", 0)
    await store.write(split_first, second, 5, "x", NOW)
    row = (await store.rows("jobs", id=second))[0]
    assert (row["array"], row["blocked_by"], row["eligible_at"]) == ("2", "dependency", None)
    assert not await match(store, second, 99, completed="2"), "the array waits for another one by now"


async def test_a_task_with_a_record_of_its_own_waits_for_its_counterpart(store):
    first, second = await by_index(store)
    await match(store, second, first, completed="1")
    await act_on(store, f"{second}_[1-2]", hold)
    rows = {row["array_task"]: row for row in await store.rows("jobs", array_job=second)}
    assert [rows[index]["blocked_by"] for index in (1, 2)] == [None, "dependency"]
    assert (await record(store, second))["reason"] == "dependency"
    [blocked] = await store.read(blocked_jobs, [rows[2]["id"]])
    assert (blocked.order, blocked.task) == (second, 2)
    await act_on(store, f"{first}_2", cancel)
    assert await store.read(reasons_of, [blocked], NOW) == {blocked.job: "dependency never satisfied"}


async def test_an_array_of_which_no_task_can_start_says_so(store):
    first, second = await by_index(store)
    await match(store, second, first, unmet="0-3")
    row = await record(store, second)
    fact = f"aftercorr of job {first} (4 of 4 tasks can never start)"
    assert (row["reason"], row["reason_fact"]) == ("dependency never satisfied", fact)
    assert await sets(store, second) == ("", 0, "0-3", 4)


async def test_tasks_that_can_never_start_are_cancelled_in_place(store):
    first, second = await by_index(store)
    await match(store, second, first, completed="0", unmet="2-3", cancels=True)
    row = await record(store, second)
    assert (row["state"], row["array"], row["array_eligible"]) == ("pending", "0-1", "0")
    assert await numbers(store, second) == {
        "n_pending": 2, "n_open": 0, "n_active": 0, "n_completed": 0, "n_failed": 0, "n_cancelled": 2,
    }  # fmt: skip
    events = [row for row in await store.rows("job_event", job_id=second) if row["event"] == "match"]
    assert [(row["cause"], json.loads(row["detail"])) for row in events] == [("dependency", {"cancelled": "2-3"})]
    [changed] = [job for job in (await store.read(changed_jobs, 0, {})).jobs if job.id == second]
    assert (changed.waits_by_index, changed.tasks, bool(changed.cancelled)) == (1, 1, True)
    await match(store, second, first, unmet="0-1", cancels=True)
    row = await record(store, second)
    assert (row["state"], row["array"]) == ("pending", "0"), "what may start stays"


async def test_an_array_is_cancelled_if_none_of_its_tasks_can_start(store):
    first, second = await by_index(store)
    await match(store, second, first, unmet="0-3", cancels=True)
    assert (await record(store, second))["state"] == "cancelled"
    [event] = [row for row in await store.rows("job_event", job_id=second) if row["event"] == "cancel"]
    assert (event["actor"], event["cause"]) == ("prioritizer", "dependency")


async def test_an_array_that_waits_for_another_one_now_looks_again(store):
    first, second = await by_index(store)
    await match(store, second, first, completed="1")
    await store.write(match_again, {second: [after("aftercorr", 1)]})
    assert await sets(store, second) == (None, 0, None, 0)
    await store.write(match_again, {second: []})
    assert await sets(store, second) == (None, None, None, None)


# --- what can never start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("default", [True, False])
async def test_a_chain_of_jobs_that_can_never_start_is_cancelled_in_its_order(store, default):
    asks = {} if default else {"cancel_if_unmet": True}
    first = await submit(store)
    chain = [await submit(store, after("afterok", first), **asks)]
    for _ in range(3):
        chain.append(await submit(store, after("afterok", chain[-1]), **asks))
    other = await submit(store, after("afterany", chain[-1]), **asks)
    stays = await submit(store, after("afterok", first), cancel_if_unmet=False)
    wanted = [*chain, other, stays]
    assert await store.write(cancel_unmet, wanted, "p", NOW, default=default) == set()
    await act_on(store, first, cancel)
    assert await store.write(cancel_unmet, wanted, "p", NOW, default=default) == set(chain)
    assert (await record(store, other))["state"] == "pending"
    events = {row["job_id"]: row for row in await store.rows("job_event") if row["event"] == "cancel"}
    assert json.loads(events[chain[1]]["detail"]) == {"unmet": f"afterok of job {chain[0]} (cancelled)"}
    assert {events[job]["cause"] for job in chain} == {"dependency"}


async def test_an_array_that_can_never_start_is_cancelled_with_its_tasks(store):
    first = await submit(store)
    array = await submit_array(store, "0-3", depends_on=[{"type": "afterok", "job": first}], cancel_if_unmet=True)
    await act_on(store, f"{array}_1", hold)
    after_task = await submit(store, after("afterok", f"{array}_1"), cancel_if_unmet=True)
    await act_on(store, first, cancel)
    wanted = [array, array + 1, after_task]
    assert await store.write(cancel_unmet, wanted, "p", NOW, default=False) == set(wanted)
    assert {row["state"] for row in await store.rows("job") if row["id"] in wanted} == {"cancelled"}


# --- who waits for whom -------------------------------------------------------------------------------------


async def test_who_waits_for_whom(store):
    first = await submit_array(store)
    job = await submit(store, after("afterok", first), after("afterany", f"{first}_3"), after("singleton"))
    rows = [(row["awaited"], row["job_id"], row["task"], row["type"]) for row in await store.rows("job_waits")]
    assert sorted(rows) == [(first, job, -1, "afterok"), (first, job, 3, "afterany")]
    await store.write(replace_waits, {job: [after("after", first)]})
    await store.write(insert_waits, {99: [after("after", first)]})
    assert {(row["job_id"], row["type"]) for row in await store.rows("job_waits")} == {(job, "after"), (99, "after")}


async def test_a_blocked_arrays_tasks_wait_for_the_same_jobs(store):
    first = await submit(store)
    array = await submit_array(store, "0-3", depends_on=[{"type": "afterok", "job": first}])
    await act_on(store, f"{array}_1", hold)
    assert {row["job_id"] for row in await store.rows("job_waits")} == {array, array + 1}


async def test_the_reason_names_each_dependency_that_is_not_met(store):
    array = await submit_array(store, "0-1")
    named = await submit(store, name="x")
    job = await submit(store, after("afterok", array), after("afterok", f"{array}_1"), after("singleton"), name="x")
    row = await record(store, job)
    assert row["reason_fact"] == (
        f"afterok of job {array} (pending); afterok of job {array}_1 (pending); "
        f"job {named} of the same user and name has not ended"
    )
    await act_on(store, array, cancel)
    await store.write(show_reason, [job], "dependency never satisfied", NOW)
    fact = (await record(store, job))["reason_fact"]
    assert fact.startswith(f"afterok of job {array} (cancelled); afterok of job {array}_1 (cancelled)")


async def test_jobs_keep_tasks_by_their_usual_names(store):
    array = await submit_array(store)
    new = accepted(request={"depends_on": [after("afterok", f"{array}_003"), after("after", str(array))]})
    [job] = await store.write(insert_jobs, [NewJob(accepted=new, actor="alice", at=NOW)], store.catalog)
    assert json.loads((await record(store, job))["depends_on"]) == [
        {"type": "afterok", "job": f"{array}_3"}, {"type": "after", "job": array},
    ]  # fmt: skip


# --- descendants --------------------------------------------------------------------------------------------


async def named(store, *roots, user="alice"):
    return {one.name for one in await store.read(descendants_of, list(roots), user)}


async def test_descendants_are_those_that_still_wait_directly_or_through_others(store):
    first = await submit(store)
    one = await submit(store, after("afterok", first))
    two = await submit(store, after("afterany", one), after("after", first))
    task = await submit(store, after("afterok", f"{first}_3"))
    await submit(store, after("singleton"))
    [foreign] = await store.submit("bob", request={"depends_on": [after("afterok", one)]})
    behind = await submit(store, after("afterok", foreign))
    assert await named(store, Target(first)) == {one, two, task}
    assert await named(store, Target(first), user=None) == {one, two, task, foreign, behind}
    await act_on(store, one, cancel)
    assert await named(store, Target(first)) == {two, task}
    assert await named(store, Target(one)) == {two}
    assert await named(store, Target(two)) == set()


async def test_descendants_of_a_task_are_those_of_its_index(store):
    first, second = await by_index(store)
    third = await submit_array(store, "0-3", depends_on=[{"type": "aftercorr", "job": second}])
    job = await submit(store, after("afterok", f"{third}_2"))
    whole = await submit(store, after("afterany", first))
    other = await submit(store, after("afterok", f"{third}_1"))
    wanted = {f"{second}_2", f"{third}_2", job, whole}
    assert await named(store, Target(first, 2)) == wanted
    await act_on(store, f"{second}_2", hold)
    record_ = other + 1
    assert await named(store, Target(first, 2)) == wanted - {f"{second}_2"} | {record_}
    assert await named(store, Target(first)) == {second, record_, third, job, whole, other}


async def test_a_chain_is_followed_to_its_end(store):
    first = await submit(store)
    chain = [first]
    for _ in range(300):
        chain.append(await submit(store, after("afterok", chain[-1])))
    assert await named(store, Target(first)) == set(chain[1:])
