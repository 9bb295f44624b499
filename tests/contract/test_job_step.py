"""Steps of jobs: their numbers, their ends, and what is left if nobody reports one."""

import re

import pytest
from builder import NOW
from contract.test_allocation_order import runs
from contract.world import DONE, RUNNING, allocate
from query_plan import plans
from sqlalchemy import insert, select, true, update

from rankd.core.errors import Refused
from rankd.core.session.step import LOST, NOT_STARTED, StepEnd
from rankd.store.engine.last_id import last_id
from rankd.store.engine.listed import listed
from rankd.store.look.job_detail import job_detail
from rankd.store.look.step_list import LONGEST_NODES, MOST_SHOWN, steps_of
from rankd.store.record import history, job_step, report
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.job_step import StepTask, begin_task, end_steps, take_step_ends
from rankd.store.schema.table import allocations, job_steps, relay_marks

MOST_STEPS = 20
BY_KEY = re.compile("(SELECT|UPDATE) job_steps")
NO_KEY = re.compile(r"(?i:scan) (on )?job_steps|Filter: [^;]*\bnumber\b|PRIMARY KEY \(allocation_id=\?\)$")
"""Of a plan: it reads all steps, or all of an allocation."""


async def begin(store, session="s0", allocation=1, at=NOW, **fields):
    plain = {"number": None, "task": 0, "place": 0, "command": "true", "user": "alice"}
    wanted = StepTask(allocation=allocation, session=session, **plain | fields)
    begun = await store.write(begin_task, wanted, at)
    if isinstance(begun, Refused):
        raise begun
    return begun


async def end(store, number, task=0, node="n1", at=NOW + 2, allocation=1, **fields):
    one = StepEnd(allocation=allocation, number=number, task=task, at=at, **fields)
    await store.write(take_step_ends, [(node, one)], NOW + 10)


async def steps(store, **wanted):
    return sorted(await store.rows("job_step", **wanted), key=lambda row: (row["allocation_id"], row["number"]))


async def test_numbers_are_dense_from_0_and_a_repeated_request_gets_its_own_again(store):
    await runs(store, "n1")
    assert [await begin(store, f"s{number}") for number in range(3)] == [0, 1, 2]
    await end(store, 1, exit_status=0)
    assert await begin(store, "s1") == 1, "its answer was lost"
    assert await begin(store, "s3") == 3


async def test_all_tasks_of_a_step_have_its_number_and_it_ends_as_the_worst_of_them(store):
    job = await runs(store, "n1", "n2")
    assert await begin(store, user="root", command="mpi 'a b'") == 0
    assert await begin(store, "other", number=0, task=1, place=1, user="root", at=NOW + 1) == 0
    [step] = await steps(store)
    assert step == {
        "job_id": job, "allocation_id": 1, "number": 0, "user": "alice", "command": "mpi 'a b'", "tasks": 2, "nodes": 2,
        "started_by": "root", "started_at": NOW, "ended_at": None, "exit_status": None, "signal": None, "cause": None,
    }  # fmt: skip
    await end(store, 0, task=1, node="n2", exit_status=3)
    await end(store, 0, task=1, node="n2", exit_status=9)
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"]) == (None, 3), "a task ends once"
    await end(store, 0, at=NOW + 5, exit_status=0)
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"]) == (NOW + 5, 3)


async def test_a_node_speaks_for_its_own_allocations_and_within_bounds(store):
    await runs(store, "n1")
    await store.add_nodes("stranger")
    await begin(store)
    await end(store, 0, node="stranger", exit_status=1)
    await end(store, 7, exit_status=1)
    await end(store, 0, allocation=99, exit_status=1)
    assert [step["ended_at"] for step in await steps(store)] == [None]
    await end(store, 0, at=1e12, exit_status=10**6, cause="invented")
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"], step["cause"]) == (NOW + 10, 255, None)
    await end(store, 0, at=NOW + 11, exit_status=0)
    assert await steps(store) == [step], "it has ended"


async def test_a_step_whose_end_nobody_reports_ends_with_its_allocation(store):
    job = await runs(store, "n1")
    await begin(store, "s0")
    await begin(store, "s1")
    await end(store, 0, exit_status=0)
    await store.report("n1", 1, job, "ended", at=NOW + 7, exit_status=0)
    first, second = await steps(store)
    assert (first["ended_at"], first["cause"]) == (NOW + 2, None)
    assert (second["ended_at"], second["cause"]) == (NOW + 7, "job_ended")
    with pytest.raises(Refused, match="just ended") as refused:
        await begin(store, "late")
    assert refused.value.code == "not_running"
    await store.write(end_steps, [1])
    assert await steps(store) == [first, second]


async def test_a_job_that_is_queued_again_counts_from_0_again(store):
    job = await runs(store, "n1", request={"requeue": True})
    await begin(store, "s0")
    await store.report("n1", 1, job, "ended", cause="lost")
    await allocate(store, job, "n1")
    await store.take("n1")
    await store.report("n1", 2, job, "started")
    assert await begin(store, "s1", allocation=2) == 0
    assert [(step["allocation_id"], step["number"]) for step in await steps(store, job_id=job)] == [(1, 0), (2, 0)]
    assert (await store.look(job_detail, job))["step_count"] == 1, "of its present run"


async def test_nobody_joins_a_step_of_another_user_or_one_that_is_not_there(store):
    await runs(store, "n1")
    await begin(store)
    for fields in ({"number": 0, "user": "root"}, {"number": 1}, {"number": 2**40}):
        with pytest.raises(Refused) as refused:
            await begin(store, "other", task=1, **fields)
        assert refused.value.code == "unknown_step"
    [step] = await steps(store)
    assert step["tasks"] == 1


async def test_a_task_that_was_not_granted_may_be_granted_by_the_same_request_later(store):
    await runs(store, "n1")
    await begin(store)
    await end(store, 0, cause=NOT_STARTED)
    [step] = await steps(store)
    assert (step["ended_at"], step["cause"]) == (NOW + 2, NOT_STARTED)
    assert await begin(store) == 0
    await end(store, 0, at=NOW + 3, exit_status=0)
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"], step["cause"]) == (NOW + 3, 0, None)


async def test_the_true_end_replaces_that_a_task_had_not_started(store):
    job = await runs(store, "n1", "n2")
    await begin(store)
    await end(store, 0, cause=NOT_STARTED)
    assert await begin(store) == 0
    await end(store, 0, at=NOW + 3, cause=NOT_STARTED)
    [step] = await steps(store)
    assert (step["exit_status"], step["cause"]) == (None, NOT_STARTED)
    await end(store, 0, at=NOW + 4, exit_status=7)
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"], step["cause"]) == (NOW + 4, 7, None)
    assert await begin(store) == 0
    assert await steps(store) == [step], "the answer was lost, and the command has ended"
    assert await begin(store, "other", number=0, task=1, place=1) == 0
    await end(store, 0, task=1, node="n2", at=NOW + 5, cause=NOT_STARTED)
    await end(store, 0, at=NOW + 4, exit_status=7)
    [step] = await steps(store)
    assert (step["ended_at"], step["exit_status"], step["cause"]) == (NOW + 5, None, NOT_STARTED), "it is the worst"
    shown = (await store.look(job_detail, job))["steps"][0]
    assert (shown["ended_at"], shown["exit_status"], shown["cause"]) == (NOW + 5, None, NOT_STARTED)


async def test_an_end_costs_the_same_however_many_steps_run(store, monkeypatch):
    """Also those of nodes without a part in the job: nothing is read for them."""
    read = []
    monkeypatch.setattr(job_step, "_state", lambda row, state=job_step._state: read.append(row["number"]) or state(row))
    await runs(store, "n1")
    await store.add_nodes("stranger")
    for number in range(5):
        await begin(store, f"s{number}")
    await end(store, 3, exit_status=0)
    assert read == [3]
    await end(store, 2, node="stranger", exit_status=0)
    await end(store, 2**62, exit_status=0)
    assert read == [3]


def add_copies(connection, column, values):
    """Steps as the first one, with these values in a column."""
    new, others = listed("values"), [other for other in job_steps.c if other is not column]
    first = select(new.c.value, *others).where(job_steps.c.allocation_id == 1, job_steps.c.number == 0)
    connection.execute(
        insert(job_steps).from_select(
            [column.name, *(c.name for c in others)], first.join_from(job_steps, new, true())
        ),
        {"values": values},
    )


async def test_steps_are_found_by_their_keys_in_a_job_with_many(store):
    """The statistics say that jobs have one step, as most have."""
    await runs(store, "n1")
    await begin(store)
    one = StepEnd(allocation=1, number=900, at=NOW, exit_status=0)

    def many(connection):
        add_copies(connection, job_steps.c.allocation_id, range(2, 25_000))
        connection.exec_driver_sql("ANALYZE")
        add_copies(connection, job_steps.c.number, range(1, 2_001))
        with plans(connection) as found:
            take_step_ends(connection, [("n1", one)], NOW)
            begin_task(connection, StepTask(1, "new", None, 0, 0, "true", "alice"), NOW)
            begin_task(connection, StepTask(1, "more", 950, 1, 0, "true", "alice"), NOW)
        return ["; ".join(plan) for text, plan in found if BY_KEY.match(text)]

    found = await store.write(many)
    assert len(found) >= 5
    for plan in found:
        assert re.search("job_steps_pkey|job_steps_session|PRIMARY KEY", plan), plan
        assert not NO_KEY.search(plan), plan


async def test_steps_of_a_job_whose_end_an_older_intake_recorded_have_ended(store, monkeypatch):
    """It knows of no steps."""
    job = await runs(store, "n1")
    await begin(store, "s0")
    await begin(store, "s1")
    await end(store, 0, exit_status=3)
    monkeypatch.setattr(report, "end_steps", lambda *_: None)
    await store.report("n1", 1, job, "ended", at=NOW + 7, exit_status=0)
    for first, second in (await steps(store), (await store.look(job_detail, job))["steps"]):
        assert (first["ended_at"], first["exit_status"], first["cause"]) == (NOW + 2, 3, None)
        assert (second["ended_at"], second["exit_status"], second["cause"]) == (NOW + 7, None, "job_ended")


async def test_the_newest_records_are_kept_and_those_of_steps_that_run(store, monkeypatch):
    """Steps go on to run and to be numbered. Each tenth one here deletes old records."""
    monkeypatch.setattr(job_step, "MOST_STEPS", MOST_STEPS)
    monkeypatch.setattr(job_step, "TRIM_EVERY", 10)
    await runs(store, "n1")

    def many(connection):
        for number in range(MOST_STEPS + 19):
            wanted = StepTask(
                allocation=1, session=f"s{number}", number=None, task=0, place=0, command="true", user="alice"
            )
            assert begin_task(connection, wanted, NOW) == number
            if number != 3:
                one = StepEnd(allocation=1, number=number, at=NOW + 1, exit_status=0)
                take_step_ends(connection, [("n1", one)], NOW + 1)

    await store.write(many)
    kept = [row["number"] for row in await steps(store)]
    assert kept == [3, *range(11, MOST_STEPS + 19)]
    await end(store, 3, exit_status=0)
    assert await begin(store, "more") == MOST_STEPS + 19
    assert await begin(store, "next") == MOST_STEPS + 20
    assert [row["number"] for row in await steps(store)] == list(range(21, MOST_STEPS + 21))


async def test_a_job_shows_its_newest_steps_and_how_many_there_were(store):
    job = await runs(store, "n1", "n2")
    for number in range(MOST_SHOWN + 2):
        await begin(store, f"s{number}", place=number % 2)
    await begin(store, "more", number=MOST_SHOWN + 1, task=1, place=0)
    record = await store.look(job_detail, job)
    assert (record["step_count"], len(record["steps"])) == (MOST_SHOWN + 2, MOST_SHOWN)
    assert [step["number"] for step in record["steps"]] == list(range(2, MOST_SHOWN + 2))
    assert [step["nodelist"] for step in record["steps"]][:2] == ["n1", "n2"]
    assert (record["steps"][-1]["nodelist"], record["steps"][-1]["tasks"]) == ("n[1-2]", 2)


async def test_the_names_of_a_steps_nodes_are_bounded(store):
    names = ["x" * 200 + letter for letter in "abcdefgh"]
    await runs(store, *names)
    await begin(store)
    for place in range(1, 8):
        await begin(store, number=0, task=place, place=place)
    [step] = (await store.look(steps_of, 1))["steps"]
    assert (len(step["nodelist"]), step["nodelist"][-1]) == (LONGEST_NODES, "…")


async def test_a_job_without_steps_shows_none(world):
    assert "steps" not in await world.look(job_detail, DONE)
    assert await world.look(steps_of, None) == {}
    assert (await world.look(job_detail, RUNNING))["step_count"] == 1


@pytest.mark.parametrize("knows_steps", [True, False])
async def test_steps_are_deleted_with_an_old_job(store, monkeypatch, knows_steps):
    """An intake of an older version deletes the job alone; nobody sees its steps any more."""
    if not knows_steps:
        older = tuple(statement for statement in history._DELETIONS if statement.table is not job_steps)
        assert len(older) == len(history._DELETIONS) - 1
        monkeypatch.setattr(history, "_DELETIONS", older)
    job = await runs(store, "n1")
    await begin(store)
    await end(store, 0, cause=LOST)
    await store.report("n1", 1, job, "ended", exit_status=0)
    last = await store.read(last_id, "job_events")
    await store.write(lambda connection: connection.execute(update(allocations).values(charged=True)))
    await store.write(
        lambda connection: connection.execute(insert(relay_marks).values(name="job_events", event_id=last))
    )
    await store.write(prune_jobs, 0, NOW + 1e6, Named(frozenset(), 0))
    assert await store.rows("jobs") == []
    assert await steps(store) == []
    assert len(await store.rows("job_steps")) == (0 if knows_steps else 1), "foreign keys are not enforced"
