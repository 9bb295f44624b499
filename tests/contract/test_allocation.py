"""Allocations on their way: committed by the scheduler, taken by nodes, reported on, taken back."""

from builder import NOW
from contract.arrays import submit_array
from contract.store import ROOT
from contract.world import SECOND, allocate

from rankd.core.change.job_action import cancel
from rankd.store.record.allocation import (
    NewAllocation,
    ReasonRow,
    ReservationRow,
    commit_allocations,
    last_cycle,
    save_reasons,
    save_reservations,
)
from rankd.store.record.array import split_first
from rankd.store.record.delivery import Ask, give, take_back, untaken, waiting_nodes
from rankd.store.record.job_action import act
from rankd.store.record.report import take_reports
from rankd.wire.message import Report


async def a_job(store, *nodes, **fields):
    await store.add_nodes(*nodes)
    [job] = await store.submit("alice", nodes=len(nodes), **fields)
    return job


async def state_of(store, job):
    [row] = await store.rows("job", id=job)
    return row["state"]


async def test_only_what_is_as_the_cycle_saw_it_is_allocated(store):
    job = await a_job(store, "n1")
    [row] = await store.rows("jobs", id=job)
    new = NewAllocation(
        job=job, revision=row["revision"], nodes=("n1",), resources={"vcore": 1000}, charge_rate=1.0, generation=0,
        rank=1,
    )  # fmt: skip
    stale = NewAllocation(
        job=job, revision=row["revision"] - 1, nodes=("n1",), resources={}, charge_rate=1.0, generation=0, rank=1
    )
    assert await store.write(commit_allocations, [stale], 1, NOW) == 0
    assert await store.write(commit_allocations, [new, new], 2, NOW) == 1
    assert await store.read(last_cycle) == 2
    assert await state_of(store, job) == "allocated"


async def test_no_job_is_placed_on_a_node_that_is_not_up(store):
    job = await a_job(store, "n1")
    assert await allocate(store, job, "n1", "n9") == 0


async def test_an_allocation_is_taken_once_and_reported(store):
    job = await a_job(store, "n1", "n2")
    await allocate(store, job, "n1", "n2")
    assert {node: newest for node, (newest, _) in (await store.read(waiting_nodes)).items()} == {"n1": 1, "n2": 1}
    [first] = await store.take("n1")
    assert [start.job for start in first.starts] == [job]
    assert (await store.take("n1"))[0].starts == []
    [other] = await store.take("n2")
    assert [start.rank for start in other.starts] == [1]
    assert await store.read(waiting_nodes) == {}
    for node in ("n1", "n2"):
        await store.report(node, 1, job, "started", at=NOW + 1, stdout=f"/out/{node}")
    assert await state_of(store, job) == "running"
    await store.report("n1", 1, job, "ended", at=NOW + 5, exit_status=0)
    assert await state_of(store, job) == "running", "its part on n2 runs"
    await store.report("n2", 1, job, "ended", at=NOW + 6, exit_status=3, max_rss_bytes=5, cpu_s=1.5)
    [row] = await store.rows("job", id=job)
    assert (row["state"], row["exit_status"], row["stdout"]) == ("failed", 3, "/out/n1")


async def test_a_report_counts_once_and_an_end_may_come_before_the_start(store):
    job = await a_job(store, "n1")
    await allocate(store, job, "n1")
    await store.take("n1")
    ended = Report(allocation=1, job=job, kind="ended", at=NOW + 5, started_at=NOW + 1, exit_status=0)
    started = Report(allocation=1, job=job, kind="started", at=NOW + 1)
    await store.write(take_reports, [("n1", ended), ("n1", started), ("n1", ended), ("n9", ended)], 3, NOW + 6)
    events = [row["event"] for row in await store.rows("job_event", job_id=job)]
    assert sorted(events) == ["allocate", "complete", "start", "submit"]


async def test_a_lost_job_is_queued_again_as_often_as_allowed(store):
    job = await a_job(store, "n1")
    for at in range(2):
        await allocate(store, job, "n1", at=NOW + at)
        [taken] = await store.take("n1")
        assert taken.starts[0].requeues == at
        lost = Report(
            allocation=taken.starts[0].allocation, job=job, kind="ended", at=NOW + at, started_at=NOW + at, cause="lost"
        )
        await store.write(take_reports, [("n1", lost)], 1, NOW + at)
    [row] = await store.rows("job", id=job)
    assert (row["state"], row["requeues"]) == ("node_lost", 1)


async def test_who_does_not_represent_the_node_gets_nothing(store):
    await store.add_nodes("n1", instance="i1")
    [answer, other] = await store.write(
        give, [Ask(node="n1", agent="n1", known=None, instance="i2"), Ask(node="n9", agent="n9", known=None)], 3, NOW
    )
    assert answer == other == (None, False)


async def test_what_the_agent_has_forgotten_is_given_again_or_lost(store):
    job = await a_job(store, "n1")
    await allocate(store, job, "n1")
    await store.take("n1")
    [(again, has_changed)] = await store.write(give, [Ask(node="n1", agent="n1", known=frozenset())], 3, NOW)
    assert ([start.job for start in again.starts], has_changed) == ([job], False)
    await store.report("n1", 1, job, "started")
    [lost] = await store.write(give, [Ask(node="n1", agent="n1", known=frozenset())], 3, NOW + 1)
    assert lost.has_changed
    assert await state_of(store, job) == "pending", "it was running and is lost: it is queued again"


async def test_an_end_waits_for_its_node(store):
    job = await a_job(store, "n1")
    await allocate(store, job, "n1")
    await store.take("n1")
    await store.write(act, [job], ROOT, NOW, cancel)
    assert await store.read(waiting_nodes) == {"n1": (0, 1)}
    assert (await store.take("n1"))[0].cancels == [1]


async def test_what_nobody_takes_is_taken_back_and_the_node_drained(store):
    job = await a_job(store, "n1")
    await allocate(store, job, "n1")
    overdue = await store.read(untaken)
    assert [(one.node, one.allocation, one.job, one.present) for one in overdue] == [("n1", 1, job, True)]
    assert await store.write(take_back, overdue, "allocation {allocation} was not taken", 3, NOW + 60) == 1
    [node] = await store.rows("node", name="n1")
    assert (node["state"], node["drain_reason"]) == ("draining", "allocation 1 was not taken")
    assert await state_of(store, job) == "pending"
    assert await store.write(take_back, overdue, "again", 3, NOW + 61) == 0


async def test_reasons_and_reservations_are_those_of_the_newest_cycle(world):
    shape = (await world.rows("jobs", id=SECOND))[0]["shape"]
    usual = {"shape": shape, "time_limit_s": -1.0, "user": "", "application": -2}
    old = ReasonRow(queue=0, reason="resources", fact="one", **usual)
    new = ReasonRow(queue=0, reason="resources", fact="two", **usual)
    await world.write(save_reasons, [old], None)
    await world.write(save_reasons, [new], [old])
    assert [row["fact"] for row in await world.rows("wait_reasons")] == ["two"]
    await world.write(save_reservations, [ReservationRow(job=SECOND, nodes=("n1", "n2"), starts_at=NOW + 9)], 9, NOW)
    [row] = await world.rows("job", id=SECOND)
    assert (row["reason_fact"], row["expected_start_at"]) == ("two", NOW + 9)
    await world.write(save_reservations, [], 10, NOW)
    assert await world.rows("reservations") == []


async def test_a_reason_about_a_task_names_the_task(store):
    await store.add_nodes("n1")
    array = await submit_array(store)
    [task] = await store.write(split_first, array, 1, "x", NOW)
    facts = [f"it would delay job {job}, for which n1 is kept from then on" for job in (array, task)]
    rows = [
        ReasonRow(queue=0, shape=place, time_limit_s=-1.0, user="", application=-2, reason="reserved", fact=fact)
        for place, fact in enumerate(facts)
    ]
    await store.write(save_reasons, rows, None)
    stored = sorted(row["fact"] for row in await store.rows("wait_reasons"))
    assert stored == sorted([facts[0], f"it would delay job {array}_0, for which n1 is kept from then on"])
    await store.write(save_reasons, [], rows)
    assert await store.rows("wait_reasons") == []
