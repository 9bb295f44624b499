"""What jobs want to notify of is beside them, and for their owner only."""

import msgspec
from builder import NOW
from contract.store import Store
from contract.world import allocate, end
from sqlalchemy import insert, update

from rankd.core.model.notification import Notify, Wanted
from rankd.store.engine.last_id import last_id
from rankd.store.look.job_detail import job_detail
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.notify import insert_notify
from rankd.store.schema.table import allocations, relay_marks

SECRET = "https://hooks.example.org/T0KEN"
NOTIFY = Notify(on=["end", "fail"], to=[SECRET])


async def test_targets_are_in_no_row_of_the_job(store: Store):
    job, plain = await store.submit("alice", request={"notify": NOTIFY}) + await store.submit("alice")
    assert "T0KEN" not in str(await store.rows("jobs", id=job))
    [row] = await store.rows("job_notifications")
    assert (row["job_id"], row["wanted"]) == (job, Wanted.END | Wanted.FAIL)
    assert msgspec.json.decode(row["notify"], type=Notify) == NOTIFY
    assert (await store.look(job_detail, plain, None))["notify"] is None


async def test_only_the_owner_and_administrators_see_them(store: Store):
    [job] = await store.submit("alice", request={"notify": NOTIFY})
    for reader, sees in ((None, True), ("alice", True), ("bob", False), ("", False)):
        detail = await store.look(job_detail, job, reader)
        assert ("T0KEN" in str(detail)) is sees
        assert ("notify" in detail) is sees


async def test_a_job_that_wants_nothing_has_no_row(store: Store):
    await store.write(insert_notify, [])
    await store.submit("alice")
    assert await store.rows("job_notifications") == []


async def test_they_are_deleted_with_the_job(store: Store):
    await store.add_nodes("n1")
    gone, kept = await store.submit("alice", "alice", at=NOW - 90_000, request={"notify": NOTIFY})
    await allocate(store, gone, "n1", at=NOW - 90_000)
    await end(store, gone, "n1", at=NOW - 80_000)
    last = await store.read(last_id, "job_events")
    await store.write(lambda connection: connection.execute(update(allocations).values(charged=True)))
    await store.write(
        lambda connection: connection.execute(insert(relay_marks).values(name="job_events", event_id=last))
    )
    await store.write(prune_jobs, 0, NOW, Named(frozenset(), 0))
    assert [row["job_id"] for row in await store.rows("job_notifications")] == [kept]
