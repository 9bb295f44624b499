"""A delta pass: adds changed jobs to the newest order, and makes one delta generation of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankd.core.ranking.columns import NO_GROUP, JobColumns
from rankd.core.ranking.order import Applications
from rankd.mirror.job_table import JobChanges
from rankd.mirror.live_order import Changes
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.generation_writer import GenerationWriter
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.feed.job import NO_LIMIT
from rankd.store.record.generation import Header

MOST_CHANGES = 2_000
"""Most changes per delta generation. They take 25 ms of work, and hold the write lock for a few of these."""


class DeltaPass(NamedTuple):
    """``made``: its generation; None if there was nothing to show. ``may_have_more``: whether to run another one."""

    made: Header | None
    may_have_more: bool


class _Found(NamedTuple):
    """The changes to show, and whether there may be more."""

    changes: Changes
    may_have_more: bool


class DeltaPasses:
    """``call_full_pass`` is called when a change happened that a delta cannot show."""

    def __init__(
        self,
        database: Database,
        source: RankingSource,
        writer: GenerationWriter,
        eligibility: Eligibility,
        call_full_pass: Callable[[], None],
    ) -> None:
        self._database = database
        self._source = source
        self._writer = writer
        self._eligibility = eligibility
        self._call_full_pass = call_full_pass

    async def run_once(self, now: float) -> DeltaPass:
        """Run one delta pass. Does nothing if there is no order that can be changed."""
        async with self._writer.lock:
            live = self._writer.live
            if live is None or live.is_broken:
                return DeltaPass(None, may_have_more=False)
            begun = time.perf_counter()
            changes, may_have_more = await self._next_changes()
            durations = {"read": time.perf_counter() - begun}
            made = await self._writer.save_delta(changes, durations) if changes.is_shown else None
            if live.is_stale:
                self._call_full_pass()
        was_released = await self._eligibility.release(now)
        return DeltaPass(made, was_released or may_have_more)

    async def _next_changes(self) -> _Found:
        if self._writer.unapplied:
            return _Found(self._writer.unapplied.pop(0), may_have_more=True)
        found, applications, has_other_nodes = await self._database.read_in_thread(self._read)
        if found.moved_nodes or has_other_nodes:
            self._call_full_pass()
        changes = as_changes(found, self._source.jobs.revision, applications)
        if self._writer.backlog is not None and changes.is_shown:
            self._writer.backlog.append(changes)
        return _Found(changes, may_have_more=len(changes) > 0)

    def _read(self, connection: Connection) -> tuple[JobChanges, Applications | None, bool]:
        """The changes of jobs; the applications if any of these jobs has one; and whether nodes have changed."""
        changes, applications = read_changes(self._source, connection, MOST_CHANGES)
        return changes, applications, self._source.has_other_nodes


def read_changes(
    source: RankingSource, connection: Connection, limit: int = NO_LIMIT
) -> tuple[JobChanges, Applications | None]:
    """The changes of jobs; and the applications, if any of these jobs has one: the last pass may not know it."""
    changes = source.read_changes(connection, limit)
    has_applications = any(row.application != NO_GROUP for row in changes.rows)
    return changes, source.applications(connection) if has_applications else None


def as_changes(found: JobChanges, revision: int, applications: Applications | None) -> Changes:
    """The changes of jobs up to the event ``revision``, as columns."""
    return Changes(
        gone=np.array(found.gone, dtype=np.int64),
        jobs=JobColumns.from_rows(found.rows),
        revision=revision,
        is_shown=found.is_shown,
        applications=applications,
        tasks=found.tasks,
    )
