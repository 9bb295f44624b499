"""Submitting jobs: one, or many in messages that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rankd.client.key import Job
from rankd.client.step import Ask, Effort, Plan, Room, answer
from rankd.core.errors import Refused
from rankd.wire.submission import MAX_JOBS_PER_MESSAGE, Accepted, BatchReply, Rejected, Submitted

PAYLOAD_SHARE = 0.9
"""How much of the largest payload a message may fill."""


def submit_one(job: Job, effort: Effort) -> Plan[Submitted]:
    """Submit a job that has a key.

    Raises:
        Refused: it is refused.
        Unavailable: rankd did not accept it in time.
    """
    payload, largest = msgspec.json.encode(job), (yield Room())
    if len(payload) > largest:
        message = f"the job has {len(payload)} bytes as JSON, the broker accepts {largest}; submit less text"
        raise Refused("too_large", message, "script", status=413)
    accepted: Submitted = yield from answer(Ask("job.submit", payload, Submitted), effort)
    return accepted


def submit_many(
    jobs: Sequence[Job], effort: Effort, *, atomic: bool = False, until: float | None = None
) -> Plan[BatchReply]:
    """Submit jobs that have keys. The places in the reply are those among all jobs.

    ``until``: until when requests are repeated, by the effort's clock; None means that each message has its own time.

    Raises:
        Refused: ``too_many_jobs``: ``atomic``, and they don't fit into one message.
        Unavailable: rankd did not accept them in time.
    """
    accepted, rejected = list[Accepted](), list[Rejected]()
    for first, payload in parts(jobs, (yield Room()), atomic=atomic):
        reply: BatchReply = yield from answer(Ask("job.submit", payload, BatchReply), effort, until=until)
        accepted += [msgspec.structs.replace(one, index=first + one.index) for one in reply.accepted]
        rejected += [msgspec.structs.replace(one, index=first + one.index) for one in reply.rejected]
    return BatchReply(accepted=accepted, rejected=rejected)


def parts(jobs: Sequence[Job], largest: int, *, atomic: bool) -> list[tuple[int, bytes]]:
    """The messages for these jobs, each with the place of its first job. ``largest``: bytes of a message.

    Raises:
        Refused: ``too_many_jobs``: ``atomic`` ones don't fit into one.
    """
    found = list(messages(jobs, int(largest * PAYLOAD_SHARE), atomic=atomic))
    if atomic and len(found) > 1:
        raise Refused("too_many_jobs", f"{len(jobs)} jobs don't fit into one message, as atomic needs", "jobs")
    return found


def messages(jobs: Sequence[Job], largest: int, *, atomic: bool = False) -> Iterator[tuple[int, bytes]]:
    """The jobs in as few messages as the limits allow, each with the place of its first job."""
    frame = b'{"jobs":[%s],"atomic":true}' if atomic else b'{"jobs":[%s]}'
    first, batch, size = 0, list[bytes](), len(frame)
    for place, job in enumerate(jobs):
        encoded = msgspec.json.encode(job)
        if batch and (len(batch) == MAX_JOBS_PER_MESSAGE or size + len(encoded) + 1 > largest):
            yield first, frame % b",".join(batch)
            first, batch, size = place, [], len(frame)
        batch.append(encoded)
        size += len(encoded) + 1
    yield first, frame % b",".join(batch)
