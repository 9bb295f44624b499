"""What the records have of ended jobs, arrays and tasks that are to be submitted again."""

import pytest
from builder import NOW
from contract.store import ALICE, ROOT
from contract.test_array import end, start, submit_array
from contract.test_job import task as task_update

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel, hold
from rankd.core.change.retry import Wish
from rankd.core.errors import Refused
from rankd.core.model.array import ArrayRequest, ArraySpan, parse_array, parse_name
from rankd.core.model.index_set import EMPTY, each, parse
from rankd.core.model.job import State
from rankd.core.model.notification import Notify
from rankd.store.record import old_job
from rankd.store.record.delivery import Ask, give
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.job_action import act
from rankd.store.record.job_name import targets_of
from rankd.store.record.job_update import judge, write_update
from rankd.store.record.old_job import read_old_job
from rankd.store.record.relay_mark import Mark, move_mark


async def old(store, name, asker=ALICE, **wanted):
    return await store.read(read_old_job, Wish(parse_name(name), **wanted), asker)


async def refusal(store, name, asker=ALICE):
    with pytest.raises(Refused) as caught:
        await old(store, name, asker)
    return caught.value.code, caught.value.status


async def ended(store, number=3, failed=(), array="0-4", **request):
    """An array of which the first tasks have ended, some with an exit status; its id."""
    await store.add_nodes("n1")
    job = await submit_array(store, array, **request)
    await start(store, job, number)
    await store.take("n1")
    for task in await store.rows("jobs", array_job=job):
        await end(store, task["allocation_id"], task["id"], status=int(task["array_task"] in failed))
    return job


async def test_whom_a_job_notifies_comes_along(store):
    notify = Notify(on=["end"], to=["mailto:alice@example.org"])
    [job] = await store.submit("alice", request={"notify": notify})
    found, _ = await old(store, job)
    assert found.request.notify == notify


async def test_a_job_has_its_request_and_its_script(store):
    [job] = await store.submit("alice", request={"script": "#!/bin/sh\n", "env": {"A": "1"}})
    await store.write(act, [job], ALICE, NOW, cancel)
    found, wish = await old(store, job)
    assert (found.id, found.user, found.state, found.was_blocked) == (job, "alice", State.CANCELLED, False)
    assert (found.request.script, found.request.env, found.tasks) == ("#!/bin/sh\n", {"A": "1"}, None)
    assert wish.name == (job, EMPTY)


async def test_a_condition_that_was_not_met_is_known(store):
    [job] = await store.submit("alice", request={"begin_at": NOW + 1000})
    await store.write(act, [job], ALICE, NOW, cancel)
    assert (await old(store, job))[0].was_blocked


@pytest.mark.parametrize("few", [5_000, 0])
async def test_tasks_whose_counterparts_have_not_completed_are_known(store, monkeypatch, few):
    monkeypatch.setattr(old_job, "FEW", few)
    first = await ended(store, 3, failed=(1,))
    second = await submit_array(store, "0-4", depends_on=[{"type": "aftercorr", "job": first}])
    assert list(each((await old(store, second))[0].tasks.unmet)) == [1, 3, 4]
    await store.write(act, [second], ALICE, NOW, cancel)
    assert list(each((await old(store, f"{second}_[0-1]"))[0].tasks.unmet)) == [1]
    assert (await old(store, first))[0].tasks.unmet == EMPTY


async def test_only_its_owner_and_administrators_read_it(store):
    [job] = await store.submit("alice")
    assert await refusal(store, job, Submitter("bob", privileged=False)) == ("not_owner", 403)
    assert (await old(store, job, ROOT))[0].id == job


async def test_the_tasks_that_did_not_complete_are_failed_and_cancelled_ones(store):
    job = await ended(store, 3, failed={2}, array="0-8:2,9")
    found, _ = await old(store, job, failed=True)
    assert (found.state, list(each(found.tasks.unfinished))) == (State.PENDING, [2])
    await store.write(act, (await store.read(targets_of, [f"{job}_8"])).found, ALICE, NOW, hold)
    await store.write(act, (await store.read(targets_of, [job])).found, ALICE, NOW + 9, cancel)
    found, _ = await old(store, job, failed=True)
    assert found.state is State.FAILED
    assert list(each(found.tasks.unfinished)) == [2, 6, 8, 9]
    assert found.tasks.all == parse("0-8:2,9")
    assert found.tasks.span == ArraySpan(6, 0, 9, 1)


async def test_tasks_of_a_regular_array_are_read_as_few_ranges(store):
    job = await ended(store, 4, failed={2, 4, 6, 0}, array="0-6:2")
    found, _ = await old(store, job, failed=True)
    assert found.tasks.unfinished == (range(0, 7, 2),)


async def test_tasks_that_have_not_ended_are_known_only_if_some_are_named(store):
    job = await ended(store, 2)
    await store.write(act, (await store.read(targets_of, [f"{job}_4"])).found, ALICE, NOW, hold)
    named, _ = await old(store, f"{job}_[0-4]")
    assert list(each(named.tasks.open)) == [2, 3, 4]
    assert (await old(store, job))[0].tasks.open == EMPTY


async def test_the_record_of_a_task_stands_for_its_name(store):
    job = await ended(store, 1)
    [task] = await store.rows("jobs", array_job=job)
    _, wish = await old(store, task["id"])
    assert str(wish.name) == f"{job}_0"


async def test_a_task_that_was_changed_alone_has_its_own_request(store):
    job = await ended(store, 1)
    await store.write(act, (await store.read(targets_of, [f"{job}_3"])).found, ALICE, NOW, hold)
    [task] = await store.rows("jobs", array_job=job, array_task=3)
    wanted = task_update(comment="alone")
    judgement = await store.read(judge, [task["id"]], wanted)
    await store.write(write_update, judgement, wanted, store.catalog)
    assert (await old(store, f"{job}_3"))[0].request.comment == "alone"
    assert (await old(store, f"{job}_1"))[0].request.comment is None
    assert (await old(store, f"{job}_[1,3]"))[0].request.comment is None


async def test_what_its_tasks_are_told_is_kept_through_retries(store):
    await store.add_nodes("n1")
    span = ArraySpan(100, 0, 198, 2)
    told = ArrayRequest(*parse_array("4,8")[:2], span)
    [job] = await store.submit("alice", array=told, retry_of=7, request={"array": "4,8"})
    await start(store, job, 1)
    [(found, _)] = await store.write(give, [Ask(node="n1", agent="n1", known=None)], 3, NOW)
    [taken] = found.starts
    assert taken.array[1:] == (4, *span)
    found, _ = await old(store, job)
    assert (found.tasks.span, found.tasks.all) == (span, parse("4,8"))
    [row] = await store.rows("job", id=job)
    assert row["retry_of"] == 7
    [task] = await store.rows("job", array_job=job)
    assert task["retry_of"] == 7


async def test_a_job_that_was_deleted_is_not_one_that_never_was(store):
    [job] = await store.submit("alice")
    assert await refusal(store, job + 1) == ("unknown_job", 404)
    await store.write(act, [job], ALICE, NOW, cancel)
    await store.write(move_mark, Mark.JOBS, 100)
    await store.write(prune_jobs, 0, NOW + 1e9, Named(frozenset(), 100))
    assert await store.rows("jobs") == []
    assert await refusal(store, job) == ("job_deleted", 404)
    assert await refusal(store, f"{job}_1") == ("job_deleted", 404)
