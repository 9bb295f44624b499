"""From a submission's bytes to accepted jobs and per-job errors. ``core.admission`` decides. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Mapping
from functools import lru_cache
from typing import cast

import msgspec

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.dependency import Awaited, check_by_index, check_known, named_jobs
from rankd.core.admission.fit import shape_of
from rankd.core.admission.job_size import check_size
from rankd.core.admission.offered import Offered
from rankd.core.admission.queue_entry import entries_with
from rankd.core.admission.submitter import Submitter
from rankd.core.change.retry import Again
from rankd.core.errors import RankdError, Refused
from rankd.core.model.index_set import IndexSet
from rankd.core.model.job import BY_INDEX, AcceptedJob, JobRequest
from rankd.core.model.secret import is_secret, without_secrets
from rankd.services.intake.rests import Rests
from rankd.store.engine.connection import Connection
from rankd.store.record.dependency import indices_of, known_jobs
from rankd.wire.codec import decode_job, decode_submission, encode
from rankd.wire.message import Accepted, BatchReply, Rejected
from rankd.wire.submission import Submitted

MOST_MESSAGES = 256 * 2**10
"""Characters of the messages of a batch's rejections. The answer then fits into 1 MB, also with 10,000 jobs."""
AT_ONCE = 100
"""Jobs of a batch that are read at once, which takes some milliseconds. Then other requests have their turn."""
BYTES_AT_ONCE = 16 * 2**10
"""Bytes of jobs that are read at once. The indices of a large array take 20 ms to read."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted and refused jobs of a message. ``places`` are the accepted jobs' indices in the batch.

    ``raw`` are the jobs of a batch as they arrived.
    """

    is_batch: bool
    atomic: bool
    accepted: list[AcceptedJob]
    places: list[int]
    rejected: list[Rejected]
    raw: list[msgspec.Raw] = []
    changes: int = 0
    """How often other intakes had changed the names when it was read."""


def read_submission(
    payload: bytes, submitter: Submitter, admission: Admission, message_id: str | None = None
) -> Submission:
    """Decode and admit a message. ``message_id`` is the key of jobs without their own key.

    Raises:
        Refused: a single job is not accepted, or the message can't be read at all.
    """
    parts = read_in_parts(payload, submitter, admission, message_id)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return cast(Submission, end.value)


async def read_beside_others(
    payload: bytes, submitter: Submitter, admission: Admission, rests: Rests, message_id: str | None = None
) -> Submission:
    """As :func:`read_submission`; after each part, other requests get a turn.

    Raises:
        Refused: as :func:`read_submission`.
    """
    parts = read_in_parts(payload, submitter, admission, message_id)
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            next(parts)
        except StopIteration as end:
            return cast(Submission, end.value)
        await rests.rest(submitter.user, loop.time() - began)


def read_in_parts(
    payload: bytes, submitter: Submitter, admission: Admission, message_id: str | None = None
) -> Generator[None, None, Submission]:
    """As :func:`read_submission`, with a pause after every :data:`AT_ONCE` jobs."""
    message = decode_submission(payload)
    if isinstance(message, JobRequest):
        check_size(_own_bytes(message, payload))
        job = admission.admit(_prepared(message, message_id), submitter)
        return Submission(is_batch=False, atomic=True, accepted=[job], places=[0], rejected=[])
    submission = Submission(is_batch=True, atomic=message.atomic, accepted=[], places=[], rejected=[], raw=message.jobs)
    same: dict[bytes, AcceptedJob] = {}
    bytes_read = 0
    for place, raw in enumerate(message.jobs):
        if bytes_read > BYTES_AT_ONCE or (place and place % AT_ONCE == 0):
            bytes_read = 0
            yield
        accepted = same.get(text := bytes(raw))
        if accepted is None:
            bytes_read += len(text)
            try:
                request = decode_job(raw)
                check_size(_own_bytes(request, text))
                key = None if message_id is None else f"{message_id}/{place}"
                accepted = admission.admit(_prepared(request, key), submitter)
            except Refused as error:
                submission.rejected.append(_rejected(place, error))
                continue
            if accepted.made:
                admission = Admission(_after(accepted, admission.tables))
                same.clear()
            elif key is None:
                same[text] = accepted
        submission.accepted.append(accepted)
        submission.places.append(place)
    if message.atomic and submission.rejected:
        return msgspec.structs.replace(submission, accepted=[], places=[])
    return submission


def read_again(again: Again, owner: Submitter, admission: Admission) -> Submission:
    """Admit the request of an ended job like a new one of its owner.

    Raises:
        Refused: it is not accepted.
    """
    check_size(_own_bytes(again.request, encode(again.request)))
    job = admission.admit(_prepared(again.request, None), owner)
    array = None if job.array is None else job.array._replace(span=again.span)
    job = msgspec.structs.replace(job, retry_of=again.retry_of, array=array)
    return Submission(is_batch=False, atomic=True, accepted=[job], places=[0], rejected=[])


def without_refused(submission: Submission, refused: Mapping[int, Refused]) -> Submission:
    """The submission without some accepted jobs. ``refused``: why, by the index among the accepted jobs.

    Raises:
        Refused: no job of the message is left, and none was rejected before.
    """
    if not refused:
        return submission
    if not submission.rejected and (submission.atomic or len(refused) == len(submission.accepted)):
        raise next(iter(refused.values()))
    rejected = [*submission.rejected, *(_rejected(submission.places[at], error) for at, error in refused.items())]
    rejected.sort(key=lambda one: one.index)
    kept = [] if submission.atomic else [at for at in range(len(submission.accepted)) if at not in refused]
    return msgspec.structs.replace(
        submission,
        accepted=[submission.accepted[at] for at in kept],
        places=[submission.places[at] for at in kept],
        rejected=rejected,
    )


ArraysOf = Callable[[frozenset[int]], Mapping[int, IndexSet]]
"""Reads the indices of arrays. Those of all arrays in a batch would take gigabytes."""


def with_known(connection: Connection, submission: Submission, user: str | None) -> Submission:
    """The submission without jobs whose dependencies are not in the records. ``user``: only jobs of this user are.

    It takes long with many dependencies, and with arrays that wait by index, so it belongs on a thread.

    Raises:
        Refused: as :func:`without_unknown`.
    """
    wanted = set(named_jobs({one for job in submission.accepted for one in job.request.depends_on}))
    return without_unknown(
        submission,
        known_jobs(connection, wanted, user),
        lru_cache(maxsize=1)(lambda arrays: indices_of(connection, arrays)),
    )


def without_unknown(submission: Submission, known: Collection[Awaited], arrays_of: ArraysOf) -> Submission:
    """The submission without jobs that depend on unknown ones, or by index on something else than a similar array.

    ``known``: the jobs, arrays and tasks in the dependencies that exist.

    Raises:
        Refused: the single job of the message does so.
    """
    kept: list[tuple[AcceptedJob, int]] = []
    rejected = list(submission.rejected)
    for job, place in zip(submission.accepted, submission.places, strict=True):
        try:
            check_known(job.request.depends_on, known)
            own = None if job.array is None else job.array.indices
            by_index = [one for one in job.request.depends_on if one.type == BY_INDEX]
            if by_index:
                arrays = arrays_of(frozenset(name for name in named_jobs(by_index) if isinstance(name, int)))
                check_by_index(by_index, own, arrays, is_part=job.retry_of is not None)
        except Refused as error:
            if not submission.is_batch:
                raise
            rejected.append(_rejected(place, error))
        else:
            kept.append((job, place))
    if submission.atomic and rejected:
        kept = []
    rejected.sort(key=lambda one: one.index)
    accepted, places = [job for job, _ in kept], [place for _, place in kept]
    return msgspec.structs.replace(submission, accepted=accepted, places=places, rejected=rejected)


def _after(job: AcceptedJob, tables: AdmissionTables) -> AdmissionTables:
    """The tables for checking the message's next job, with the queues that this job makes."""
    if (job.partition, job.queue.lower()) in tables.queues:
        return tables
    queues = entries_with(job.made, job.partition, tables.queues)
    return msgspec.structs.replace(tables, queues=queues)


def _own_bytes(request: JobRequest, text: bytes) -> int:
    """The bytes of a job as JSON without its script, which has a limit of its own."""
    return len(text if request.script is None else encode(msgspec.structs.replace(request, script=None)))


def _prepared(job: JobRequest, key: str | None) -> JobRequest:
    """The request with its key, and without the environment variables that are never stored."""
    if any(is_secret(name, value) for name, value in job.env.items()):
        job = msgspec.structs.replace(job, env=without_secrets(job.env))
    return job if key is None or job.key is not None else msgspec.structs.replace(job, key=key)


def _rejected(place: int, error: RankdError) -> Rejected:
    return Rejected(index=place, code=error.code, message=error.message, field=error.field)


def reply_of(
    submission: Submission, ids: list[int], error: RankdError | None = None
) -> msgspec.Struct | dict[str, object]:
    """The answer, once the ids are durable. ``error``: why the jobs after these ids could not be stored."""
    if not submission.is_batch:
        job = submission.accepted[0]
        tasks = None if job.array is None else job.n_tasks
        return Submitted(id=ids[0], tasks=tasks, warning=warning_of(job, None))
    given: set[str] = set()
    accepted = [
        Accepted(index=place, id=id_, tasks=None if job.array is None else job.n_tasks, warning=_new(job, given))
        for place, id_, job in zip(submission.places, ids, submission.accepted, strict=False)
    ]
    return BatchReply(accepted=accepted, rejected=_shortened(rejected_of(submission, ids, error)))


def with_doubt(
    submission: Submission, ids: list[int], error: RankdError | None, offered: Offered
) -> msgspec.Struct | dict[str, object]:
    """The answer of :func:`reply_of`; for a single job with a warning, if no known node could run it."""
    reply = reply_of(submission, ids, error)
    job = submission.accepted[0] if isinstance(reply, Submitted) else None
    doubt = None if job is None else offered.doubt(shape_of(job), job.bounds)
    if doubt is None:
        return reply
    return msgspec.structs.replace(cast(Submitted, reply), warning=warning_of(submission.accepted[0], doubt))


def warning_of(job: AcceptedJob, doubt: str | None) -> str | None:
    """What its user should know about a job, a line each. ``doubt``: why no known node could run it."""
    return "\n".join(job.remarks if doubt is None else (doubt, *job.remarks)) or None


def _new(job: AcceptedJob, given: set[str]) -> str | None:
    """What the user should know about this job of a batch, except what was said of one before it."""
    found = [remark for remark in job.remarks if remark not in given and sum(map(len, given)) < MOST_MESSAGES]
    given.update(found)
    return "\n".join(found) or None


def _shortened(rejected: list[Rejected]) -> list[Rejected]:
    """The rejections; if they are long, a message that was given before only names the job that has it."""
    if sum(len(one.message) for one in rejected) <= MOST_MESSAGES:
        return rejected
    first: dict[str, int] = {}
    return [
        one
        if first.setdefault(one.message, one.index) == one.index
        else msgspec.structs.replace(one, message=f"as for the job with index {first[one.message]}")
        for one in rejected
    ]


def rejected_of(submission: Submission, ids: list[int], error: RankdError | None) -> list[Rejected]:
    """The jobs of a batch that were not accepted, or not stored."""
    missing = [_rejected(place, error) for place in submission.places[len(ids) :] if error is not None]
    return submission.rejected + missing
