"""Stores submitted jobs that were admitted, part by part, so that others can write in between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.submission import Submission
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import GroupCommit, News, Outdated
from rankd.store.record.catalog import Catalog
from rankd.store.record.job import NewJob, insert_jobs, weight_of


class Names(Protocol):
    """The names that jobs are stored with at present."""

    catalog: Catalog

    @property
    def changes(self) -> int | None:
        """How often other intakes have changed them; None where there are no others."""

    def learn(self) -> None:
        """Load the names that their first use has added to the catalog."""


class _Part(NamedTuple):
    """Jobs to store in one transaction. ``changes``: what they were admitted under; None: it may be anything."""

    jobs: Sequence[NewJob]
    changes: int | None


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
            Outdated: none is stored; they have to be admitted again.
            RankdError: none is stored.
        """
        now, jobs = self._clock(), submission.accepted
        new = [NewJob(accepted=job, actor=submitter.user, at=now, via=submitter.via) for job in jobs]
        try:
            ids, error = await self._insert(
                new, len(new) if submission.atomic else self._group.size, submission.changes
            )
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

    async def _insert(self, new: Sequence[NewJob], at_once: int, changes: int) -> tuple[list[int], RankdError | None]:
        """Store jobs part by part, so that others can write in between; returns the ids, and any error.

        The message counts as admitted once its first part is stored.
        """
        ids: list[int] = []
        for start in range(0, len(new), at_once):
            part = _Part(new[start : start + at_once], None if start else changes)
            weight = weight_of(part.jobs)
            try:
                stored = await self._group.do_together(
                    self._insertion, part, client=new[0].actor, news=News.OF_NEW_JOBS, weight=weight
                )
                if stored is None:
                    raise Outdated
                ids += stored
            except RankdError as error:
                if not ids:
                    raise
                return ids, error
        return ids, None

    def _insertion(self, connection: Connection, parts: Sequence[_Part]) -> list[list[int] | None]:
        """Insert jobs; returns the ids of each part. Uses the present catalog: a failed transaction replaces it.

        None for a part that other intakes have made outdated: it is not stored.
        """
        fits = [self._is_present(connection, part) for part in parts]
        new = [job for part, is_present in zip(parts, fits, strict=True) if is_present for job in part.jobs]
        ids = iter(insert_jobs(connection, new, self._names.catalog) if new else ())
        return [
            list(islice(ids, len(part.jobs))) if is_present else None
            for part, is_present in zip(parts, fits, strict=True)
        ]

    def _is_present(self, connection: Connection, part: _Part) -> bool:
        """Whether the jobs may be stored as they were admitted and counted."""
        present = self._names.changes
        if present is None:
            return True
        if part.changes not in (None, present):
            return False
        return self._limits.may_store(connection, [one.accepted for one in part.jobs])
