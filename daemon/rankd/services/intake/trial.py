"""``job.test``: whether a job would be accepted, by all the checks of a submission. Nothing is stored or counted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rankd.core.admission.dependency import named_jobs
from rankd.core.admission.fit import shape_of
from rankd.core.admission.offered import Offered
from rankd.core.admission.privacy import sees_only
from rankd.core.admission.start_check import Wait, never_starts, waits_of
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.index_set import IndexSet
from rankd.core.model.job import SINGLETON, AcceptedJob, name_of
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.runnable_users import RunnableUsers
from rankd.services.intake.submission import Submission, warning_of, with_known, without_refused
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.array_match import counterparts, outcome_of
from rankd.store.record.dependency import newest_of_name, progress_of
from rankd.wire.submission import Tested


class Trial:
    """The checks of admitted jobs against the records. ``offered`` returns what the nodes have offered so far."""

    def __init__(
        self,
        database: Database,
        runnable: RunnableUsers,
        limits: JobLimits,
        offered: Callable[[], Offered],
        clock: Clock,
    ) -> None:
        self._database = database
        self._runnable = runnable
        self._limits = limits
        self._offered = offered
        self._clock = clock

    async def allowed(self, submission: Submission, submitter: Submitter, looker: Submitter) -> Submission:
        """The submission without jobs whose dependencies are unknown, or whose user may not run jobs.

        ``looker``: by whose rights the jobs in the dependencies are looked up.

        Raises:
            Refused: no job of the message is left, and none was rejected before.
        """
        if any(job.request.depends_on for job in submission.accepted):

            def looked_up(connection: Connection) -> Submission:
                known = with_known(connection, submission, sees_only(looker))
                return known if known.is_batch else _with_doomed(connection, known)

            submission = await self._database.read_in_thread(looked_up)
        return without_refused(submission, await self._runnable.refused(submission.accepted, submitter))

    async def judge(self, submission: Submission, submitter: Submitter, looker: Submitter) -> Tested:
        """The answer about a job that was admitted.

        Raises:
            Refused: the job would be refused; or the message has several jobs.
        """
        if submission.is_batch:
            raise Refused("bad_request", "job.test takes one job, not a list; send a request for each job", "jobs")
        (job,) = (await self.allowed(submission, submitter, looker)).accepted
        refusal = await self._limits.refusal_of(job)
        if refusal is not None:
            raise refusal
        waits = await self._waits(job)
        return Tested(
            user=job.user,
            account=job.account,
            queue=job.queue,
            partition=job.partition,
            qos=job.qos,
            tasks=None if job.array is None else job.n_tasks,
            waits=waits,
            warning=warning_of(job, self._offered().doubt(shape_of(job), job.bounds)),
        )

    async def _waits(self, job: AcceptedJob) -> list[Wait]:
        now, depends_on = self._clock(), job.request.depends_on
        if not depends_on:
            return waits_of(job, {}, None, now)
        is_singleton = any(one.type == SINGLETON for one in depends_on)

        def looked_up(connection: Connection) -> list[Wait]:
            earlier = newest_of_name(connection, job.user, name_of(job.request)) if is_singleton else None
            return waits_of(job, progress_of(connection, named_jobs(depends_on)), earlier, now)

        return await self._database.read_in_thread(looked_up)


def _with_doomed(connection: Connection, submission: Submission) -> Submission:
    """The submission of a single job, with a remark for each dependency because of which it can never start."""
    (job,) = submission.accepted
    depends_on = job.request.depends_on
    unmet: dict[int, IndexSet] = {}
    if job.array is not None:
        unmet = {one: outcome_of(connection, [one], job.array.indices).unmet for one in counterparts(depends_on)}
    remarks = tuple(never_starts(job, progress_of(connection, named_jobs(depends_on)), unmet))
    if not remarks:
        return submission
    job = msgspec.structs.replace(job, remarks=(*job.remarks, *remarks))
    return msgspec.structs.replace(submission, accepted=[job])
