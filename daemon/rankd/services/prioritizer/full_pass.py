"""A full pass: reads everything, ranks all jobs in a thread, and makes one full generation."""

from __future__ import annotations

import asyncio
import time

import msgspec

from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_priority import QueuePriorities
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.mirror.job_table import JobChanges, Snapshot, merged
from rankd.services.prioritizer.delta_pass import as_changes, read_changes
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.factor_set import FactorSet
from rankd.services.prioritizer.generation_writer import FullPass, GenerationWriter
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.settlement import settlement_of
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.generation import Header


class FullPasses:
    """Passes that rank with ``factors``. Delta passes continue meanwhile."""

    def __init__(
        self,
        database: Database,
        source: RankingSource,
        writer: GenerationWriter,
        eligibility: Eligibility,
        factors: FactorSet,
    ) -> None:
        self._database = database
        self._source = source
        self._writer = writer
        self._eligibility = eligibility
        self._factors = factors
        self._queue_priorities = QueuePriorities()

    async def run_once(self, now: float, configuration: int | None) -> tuple[Ranking, list[Header]]:
        """Run a pass with the configuration of this number; returns the generations that it made, oldest first."""
        clock = [time.perf_counter()]
        await self._eligibility.age_applications(now)
        if not self._source.jobs.is_loaded:
            await self._database.read_in_thread(self._source.load)
            await self._database.read_in_thread(self._factors.read_last_good)
        state, snapshot, revision = await self._read(now)
        clock.append(time.perf_counter())
        ranking, state = await asyncio.to_thread(self._rank, state, snapshot, now)
        self._source.adopt(snapshot, state.jobs)
        await self._factors.keep_good(ranking, now)
        clock.append(time.perf_counter())
        settings = self._factors.settings
        found = FullPass(
            ranking=ranking,
            state=state,
            revision=revision,
            settlement=settlement_of(self._source.ledgers, ranking.now, settings.fairshare.half_life_s),
            durations={"read": clock[1] - clock[0], "rank": clock[2] - clock[1]},
            settings=settings,
            factors=self._factors.used,
            configuration=configuration,
        )
        made = await self._writer.save_full(found)
        await asyncio.to_thread(self._factors.close_retired)
        return ranking, made

    async def _read(self, now: float) -> tuple[RankingState, Snapshot, int]:
        """The state without its jobs; the jobs; and the last event that they include.

        Later changes of jobs are kept in the writer's backlog, and added to the generation of this pass.
        """
        jobs = self._source.jobs
        async with self._writer.lock:
            self._keep(*await self._database.read_in_thread(self._read_changes))
            if await self._eligibility.release(now):
                self._keep(*await self._database.read_in_thread(self._read_changes))
            self._writer.backlog = []
            snapshot, revision = jobs.snapshot(), jobs.revision
        await self._database.read_in_thread(self._source.read_groups)
        return self._source.known_state, snapshot, revision

    def _read_changes(self, connection: Connection) -> tuple[JobChanges, Applications | None]:
        return read_changes(self._source, connection)

    def _keep(self, changes: JobChanges, applications: Applications | None) -> None:
        """Keep changes for the next delta pass, because the newest generation does not show them yet."""
        if changes.is_shown:
            self._writer.unapplied.append(as_changes(changes, self._source.jobs.revision, applications))

    def _rank(self, state: RankingState, snapshot: Snapshot, now: float) -> tuple[Ranking, RankingState]:
        """Rank the jobs. Runs in a thread."""
        state = msgspec.structs.replace(state, jobs=merged(snapshot), tasks=snapshot.tasks)
        own = self._factors
        own.prepare(state, self._writer.live)
        shown = self._queue_priorities
        return rank(state, own.settings, own.used, now, own.last_good, shown=shown, for_deltas=True), state
