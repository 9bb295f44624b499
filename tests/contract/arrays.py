"""What contract tests do with arrays: submit one, start and end its tasks, read its records."""

from builder import NOW

from rankd.core.model.array import parse_array
from rankd.store.record.allocation import NewAllocation, commit_allocations

TEN = "0-9"


async def submit_array(store, array=TEN, **request):
    [job] = await store.submit("alice", array=parse_array(array), request={"array": array, **request})
    return job


async def record(store, job):
    [row] = await store.rows("job", id=job)
    return row


async def numbers(store, job):
    [row] = await store.rows("arrays", job_id=job)
    return {name: row[name] for name in ("n_pending", "n_open", "n_active", "n_completed", "n_failed", "n_cancelled")}


async def start(store, array, number):
    """Allocate the first tasks of an array on n1, as the scheduler does."""
    [row] = await store.rows("jobs", id=array)
    new = NewAllocation(
        job=array, revision=row["revision"], nodes=("n1",), resources={"vcore": 1}, charge_rate=1.0, generation=0,
        rank=1, of_array=True,
    )  # fmt: skip
    return await store.write(commit_allocations, [new] * number, 1, NOW + 1)


async def end(store, allocation, job, status=0):
    await store.report("n1", allocation, job, "started", at=NOW + 2)
    await store.report("n1", allocation, job, "ended", at=NOW + 3, exit_status=status)
