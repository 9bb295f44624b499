"""The scripts of jobs: stored beside them, given to their first node, deleted with them."""

import msgspec
import pytest
from builder import NOW, accepted
from contract.store import Store
from contract.world import allocate, end
from sqlalchemy import insert

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.store.engine.last_id import last_id
from rankd.store.look.job_detail import job_detail
from rankd.store.look.job_script import job_script, script_bytes
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.job import NewJob, weight_of
from rankd.store.record.script import insert_scripts, read_script
from rankd.store.schema.table import relay_marks

SCRIPT = "#!/bin/sh\necho 'ä'\n"
BYTES = len(SCRIPT.encode())


async def test_a_script_is_beside_the_job_and_in_no_row_of_it(store: Store):
    job, plain = await store.submit("alice", request={"script": SCRIPT}) + await store.submit("alice")
    [row] = await store.rows("jobs", id=job)
    assert "echo" not in str(row)
    assert msgspec.json.decode(row["request"], type=JobRequest).script is None
    assert await store.look(job_script, job) == SCRIPT
    assert await store.read(read_script, job) == SCRIPT.encode()
    assert [await store.look(script_bytes, one) for one in (job, plain)] == [BYTES, None]
    detail = await store.look(job_detail, job, None)
    assert detail["script_bytes"] == BYTES
    assert "echo" not in str(detail)


async def test_a_job_without_one_and_no_job_are_told_apart(store: Store):
    [plain] = await store.submit("alice")
    with pytest.raises(Refused, match="has no script, it runs a command"):
        await store.look(job_script, plain)
    with pytest.raises(Refused, match="there is no job 99"):
        await store.look(job_script, 99)


async def test_a_repeated_submission_stores_its_script_once(store: Store):
    first = await store.submit("alice", request={"script": SCRIPT, "key": "k"})
    assert await store.submit("alice", request={"script": "#!/bin/other", "key": "k"}) == first
    assert await store.look(job_script, first[0]) == SCRIPT
    assert len(await store.rows("job_scripts")) == 1


async def test_only_the_first_node_of_the_allocation_gets_it(store: Store):
    await store.add_nodes("n1", "n2", "n3")
    [job] = await store.submit("alice", nodes=2, request={"script": SCRIPT})
    await allocate(store, job, "n2", "n1")
    first, second, other = await store.take("n2", "n1", "n3")
    [start], [holder] = first.starts, second.starts
    assert (start.script, start.holds, start.rank) == (SCRIPT.encode(), False, 0)
    assert (holder.script, holder.holds, holder.rank) == (None, True, 1)
    assert (start.account, start.queue, start.qos) == ("physics", "root.default", "normal")
    assert other.starts == []
    assert [taken.starts for taken in await store.take("n2", "n1")] == [[], []], "and once"


async def test_large_scripts_come_in_several_answers(store: Store):
    await store.add_nodes("n1")
    large = "#!/bin/sh\n#" + "x" * 300_000
    jobs = [*await store.submit("alice", "alice", "alice", request={"script": large})]
    for job in jobs:
        await allocate(store, job, "n1")
    answers = [(await store.take("n1"))[0] for _ in jobs]
    assert [[start.job for start in answer.starts] for answer in answers] == [[job] for job in jobs]
    assert [answer.more for answer in answers] == [True, True, False]


async def test_the_script_ends_the_job_and_its_further_nodes(store: Store):
    await store.add_nodes("n1", "n2")
    [job] = await store.submit("alice", nodes=2, request={"script": SCRIPT})
    await allocate(store, job, "n1", "n2")
    [taken, _] = await store.take("n1", "n2")
    allocation = taken.starts[0].allocation
    for node in ("n1", "n2"):
        await store.report(node, allocation, job, "started", at=NOW + 1)
    await store.report("n1", allocation, job, "ended", at=NOW + 2, exit_status=0)
    [holding] = await store.take("n2")
    assert holding.cancels == [allocation]
    await store.report("n2", allocation, job, "ended", at=NOW + 3, signal=15, cause="cancel")
    [row] = await store.rows("job", id=job)
    assert (row["state"], row["exit_status"]) == ("completed", 0)


async def test_a_script_is_deleted_with_its_job(store: Store):
    await store.add_nodes("n1")
    gone, kept = await store.submit("alice", "alice", at=NOW - 90_000, request={"script": SCRIPT})
    await allocate(store, gone, "n1", at=NOW - 90_000)
    await end(store, gone, "n1", at=NOW - 80_000)
    charged = "UPDATE allocations SET charged = 1"
    await store.write(lambda connection: connection.exec_driver_sql(charged))
    marks = insert(relay_marks).values(name="job_events", event_id=await store.read(last_id, "job_events"))
    await store.write(lambda connection: connection.execute(marks))
    await store.write(prune_jobs, 0, NOW, Named(frozenset(), 0))
    assert [row["job_id"] for row in await store.rows("job_scripts")] == [kept]


async def test_nothing_is_written_without_scripts(store: Store):
    await store.write(insert_scripts, [(7, accepted())])
    assert await store.rows("job_scripts") == []


def test_a_large_script_counts_as_several_jobs():
    large = accepted(request={"script": "#!" + "x" * 100_000})
    new = [NewJob(accepted=job, actor="alice", at=NOW) for job in (accepted(), large)]
    assert (weight_of(new[:1]), weight_of(new)) == (1, 26)
