"""Orders for running jobs: signals and time limits, until their nodes have carried them out."""

import json

import pytest
from builder import NOW, admission_tables
from contract.store import ROOT
from contract.test_allocation import a_job
from contract.world import allocate
from sqlalchemy import insert, update

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import MOST_ON_THEIR_WAY, cancel
from rankd.core.change.job_update import Task
from rankd.store.engine.last_id import last_id
from rankd.store.feed.job_end import happened_since, with_other_limits
from rankd.store.record.allocation_order import (
    carried_out,
    crowded,
    forget_orders,
    newest_orders,
    open_orders,
    order_limits,
    order_signals,
)
from rankd.store.record.delivery import Ask, give, waiting_nodes
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.job_action import act, send_signals
from rankd.store.record.job_update import judge, write_update
from rankd.store.schema.table import allocations, relay_marks
from rankd.wire.job_update import JobUpdate

ALICE, BOB = Submitter("alice", privileged=False, via="n9"), Submitter("bob", privileged=False)


async def runs(store, *nodes, **fields):
    job = await a_job(store, *nodes, **fields)
    await allocate(store, job, *nodes)
    for node in nodes:
        await store.take(node)
        await store.report(node, 1, job, "started")
    return job


async def given(store, node, done=()):
    ask = Ask(node=node, agent=node, known=None, carried_out=done)
    [(answer, _)] = await store.write(give, [ask], 3, NOW)
    return [(order.allocation, order.signal, order.time_limit_s) for order in answer.orders]


async def events(store, job, event):
    return [row for row in await store.rows("job_events") if row["job_id"] == job and row["event"] == event]


async def test_a_signal_waits_for_each_node_until_it_has_carried_it_out(store):
    job = await runs(store, "n1", "n2")
    reply = await store.write(send_signals, [job], ALICE, NOW, 10, dry_run=False)
    assert (reply.done, reply.failed) == ([job], [])
    [event] = await events(store, job, "signal")
    assert (event["state"], event["actor"]) == ("running", "alice")
    assert json.loads(event["detail"]) == {"signal": "USR1", "via": "n9"}
    assert await store.read(newest_orders) == {"n1": 1, "n2": 2}
    assert await store.read(waiting_nodes) == {"n1": (0, 0, 1), "n2": (0, 0, 2)}
    assert await given(store, "n1") == await given(store, "n1") == [(1, 10, None)], "it is repeated"
    assert await given(store, "n1", done=[1, 2]) == []
    assert await given(store, "n2") == [(1, 10, None)], "a node speaks for itself only"
    await store.write(carried_out, "n2", [2])
    assert await store.write(open_orders, ["n1", "n2"]) == {}


async def test_orders_end_with_their_job(store):
    job = await runs(store, "n1")
    await store.write(order_signals, [job], 10)
    await store.write(order_limits, {job: 5.0})
    assert await given(store, "n1") == [(1, 10, None), (1, None, 5.0)]
    await store.write(forget_orders, [1])
    assert len(await store.rows("allocation_orders")) == 2, "it has not ended"
    await store.report("n1", 1, job, "ended", exit_status=0)
    assert await store.read(newest_orders) == {}
    assert await store.rows("allocation_orders") == []


async def test_orders_are_deleted_with_an_old_job(store):
    job = await runs(store, "n1")
    await store.write(order_signals, [job], 10)
    await store.report("n1", 1, job, "ended", exit_status=0)
    last = await store.read(last_id, "job_events")
    await store.write(lambda connection: connection.execute(update(allocations).values(charged=True)))
    await store.write(
        lambda connection: connection.execute(insert(relay_marks).values(name="job_events", event_id=last))
    )
    await store.write(prune_jobs, 0, NOW + 1e6, Named(frozenset(), 0))
    assert (await store.rows("jobs"), await store.rows("allocation_orders")) == ([], [])


async def test_who_may_signal_what(store):
    job = await runs(store, "n1")
    [waits] = await store.submit("alice")
    reply = await store.write(send_signals, [job, waits], BOB, NOW, 10, dry_run=False)
    assert [failed.code for failed in reply.failed] == ["not_owner", "not_owner"]
    reply = await store.write(send_signals, [job, waits], ALICE, NOW, 10, dry_run=True)
    assert (reply.done, [failed.code for failed in reply.failed]) == ([job], ["not_running"])
    assert await store.rows("allocation_orders") == []


async def test_orders_that_a_node_does_not_fetch_are_bounded(store):
    job = await runs(store, "n1")
    await store.write(order_limits, {job: 5.0})
    for _ in range(MOST_ON_THEIR_WAY - 1):
        await store.write(order_signals, [job], 10)
    assert await store.read(crowded, [job]) == set(), "a time limit is no signal"
    await store.write(order_signals, [job], 10)
    assert await store.read(crowded, [job]) == {job}
    reply = await store.write(send_signals, [job], ALICE, NOW, 10, dry_run=False)
    assert [failed.code for failed in reply.failed] == ["too_many_signals"]


async def test_the_newest_limit_replaces_those_before(store):
    job = await runs(store, "n1")
    await store.write(order_signals, [job], 10)
    for limit in (5.0, 6.0, 7.0):
        await store.write(order_limits, {job: limit})
    assert await given(store, "n1") == [(1, 10, None), (1, None, 7.0)]
    assert await store.read(newest_orders, ["n1"]) == {"n1": 4}, "ids ascend"
    assert await store.read(newest_orders, ["n2"]) == {}


async def updated(store, job, asker=ALICE, **fields):
    task = Task(JobUpdate(id=job, **fields), asker, admission_tables(), NOW + 1)
    judgement = await store.read(judge, [job], task)
    return await store.write(write_update, judgement, task, store.catalog)


async def test_a_running_job_gets_another_time_limit(store):
    job = await runs(store, "n1", request={"time_limit_s": 600.0})
    [before] = await store.rows("jobs", id=job)
    reply = await updated(store, job, time_limit_s=300.0)
    assert (reply.done, reply.failed) == ([job], [])
    [row] = await store.rows("jobs", id=job)
    assert (row["time_limit_s"], row["state"], '"time_limit_s":300.0' in row["request"]) == (300.0, "running", True)
    [event] = await events(store, job, "update")
    assert (event["actor"], json.loads(event["detail"])["via"]) == ("alice", "n9")
    assert await given(store, "n1") == [(1, None, 300.0)]
    assert await store.read(with_other_limits, before["revision"]) == [1]
    assert await store.read(happened_since, before["revision"]) == (False, True)
    assert await store.read(with_other_limits, row["revision"]) == []
    reply = await updated(store, job, add_time_limit_s=1.0)
    assert [failed.code for failed in reply.failed] == ["admins_only"]
    await updated(store, job, ROOT, add_time_limit_s=1.0)
    assert (await store.rows("jobs", id=job))[0]["time_limit_s"] == 301.0
    await updated(store, job, time_limit_s=301.0)
    assert len(await events(store, job, "update")) == 2, "what is so already is no event"


@pytest.mark.parametrize("fields", [{"comment": "x"}, {"time_limit_s": 5.0, "name": "x"}, {"array_limit": 2}])
async def test_other_fields_of_a_running_job_stay(store, fields):
    job = await runs(store, "n1", request={"time_limit_s": 600.0})
    reply = await updated(store, job, ROOT, **fields)
    assert [(failed.code, "only its time limit" in failed.message) for failed in reply.failed] == [
        ("not_pending", True)
    ]


async def test_a_running_job_with_a_new_limit_is_cancelled_as_before(store):
    job = await runs(store, "n1", request={"time_limit_s": 600.0})
    await updated(store, job, time_limit_s=300.0)
    assert (await store.write(act, [job], ALICE, NOW, cancel)).done == [job]
