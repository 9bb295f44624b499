"""Stores submitted jobs that were admitted, part by part, so that others can write in between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.submission import Submission
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import MAX_GROUP, GroupCommit
from rankd.store.record.catalog import Catalog
from rankd.store.record.job import NewJob, insert_jobs, weight_of


class Names(Protocol):
    """The names that jobs are stored with at present."""

    catalog: Catalog

    def learn(self) -> None:
        """Load the names that their first use has added to the catalog."""


class NewJobs:
    """Stores jobs, and tells the limits which of them are stored."""

    def __init__(self, group: GroupCommit, limits: JobLimits, names: Names, clock: Clock) -> None:
        self._group = group
        self._limits = limits
        self._names = names
        self._clock = clock

    async def store(self, submission: Submission, submitter: Submitter) -> tuple[list[int], RankdError | None]:
        """Store the jobs; returns the ids, and the error if some are missing.

        Raises:
            RankdError: none is stored.
        """
        now, jobs = self._clock(), submission.accepted
        new = [NewJob(accepted=job, actor=submitter.user, at=now, via=submitter.via) for job in jobs]
        try:
            ids, error = await self._insert(new, len(new) if submission.atomic else MAX_GROUP)
        except RankdError:
            self._limits.lost(jobs)
            raise
        except BaseException:  # it may still be stored
            self._limits.stored(jobs)
            raise
        self._limits.stored(jobs[: len(ids)])
        self._limits.lost(jobs[len(ids) :])
        self._names.learn()
        return ids, error

    async def _insert(self, new: Sequence[NewJob], at_once: int) -> tuple[list[int], RankdError | None]:
        """Store jobs part by part, so that others can write in between; returns the ids, and any error."""
        ids: list[int] = []
        for start in range(0, len(new), at_once):
            part = new[start : start + at_once]
            try:
                ids += await self._group.do_together(self._insertion, part, client=new[0].actor, weight=weight_of(part))
            except RankdError as error:
                if not ids:
                    raise
                return ids, error
        return ids, None

    def _insertion(self, connection: Connection, parts: Sequence[Sequence[NewJob]]) -> list[list[int]]:
        """Insert jobs; returns the ids of each part. Uses the present catalog: a failed transaction replaces it."""
        ids = iter(insert_jobs(connection, [job for part in parts for job in part], self._names.catalog))
        return [list(islice(ids, len(part))) for part in parts]
