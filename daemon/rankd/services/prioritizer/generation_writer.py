"""Makes generations visible: full ones, which are staged while deltas continue, and the deltas based on them.

A full pass knows the jobs as they were when it began. Later changes are added to its order before it becomes visible.
They become visible together with it, as a delta. So no job disappears meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec
import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.factor import Factor, Per
from rankd.core.ranking.ranking import Ranking, RankingState
from rankd.mirror.live_order import Changes, LiveOrder
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.role import ROLE
from rankd.services.runtime.clock import Clock
from rankd.store.engine.database import Database
from rankd.store.record.application import save_waiting_applications
from rankd.store.record.generation import (
    GenerationRecord,
    Header,
    Settlement,
    Stage,
    head_stage,
    leaf_stages,
    newest_base,
    newest_number,
    publish,
    stages,
    together,
)
from rankd.store.record.retention import prune, stale_tables
from rankd.store.schema.view import FactorColumn

FEW = 32
"""The commit that makes a full generation visible may add up to this many changes."""
ROUNDS = 10
"""The most further batches of changes that are added before that commit."""


class FullPass(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass over the jobs, as of the event ``revision``. Durations are in seconds."""

    ranking: Ranking
    state: RankingState
    revision: int
    settlement: Settlement
    durations: dict[str, float]
    settings: PrioritySettings
    factors: Sequence[Factor]
    configuration: int | None = None

    @property
    def columns(self) -> list[FactorColumn]:
        """The factors as the views show them. Values that a failed factor kept have no formula."""
        failed = {error.factor for error in self.ranking.priorities.failures}
        return [
            FactorColumn(
                name=factor.name,
                per=factor.per,
                sql=factor.sql() if factor.per is Per.JOB and factor.name not in failed else None,
                parameters=tuple(factor.parameters()),
            )
            for factor in self.factors
        ]


class GenerationWriter:
    """Stores generations. :attr:`lock` is held while a delta is made.

    ``when_staged`` is called once the leaves of a full generation are stored; the scheduler needs only these.
    """

    def __init__(
        self,
        database: Database,
        source: RankingSource,
        clock: Clock,
        when_staged: Callable[[], Awaitable[None]],
    ) -> None:
        self.lock = asyncio.Lock()
        self.live: LiveOrder | None = None
        self.newest: Header | None = None
        self.backlog: list[Changes] | None = None
        """Changes since the beginning of the pass that is being stored; None if no pass is being stored."""
        self.unapplied: list[Changes] = []
        """Changes that are part of the pass that is being stored, but not of the newest generation."""
        self._database = database
        self._source = source
        self._clock = clock
        self._when_staged = when_staged
        self._last_number: int | None = None
        self._shown: list[FactorColumn] = []
        self._waiting: frozenset[int] | None = None
        self._head: IntArray = np.empty(0, dtype=np.int64)

    async def save_full(self, found: FullPass) -> list[Header]:
        """Store a pass and make it visible; returns the generations that this made, oldest first."""
        if self._last_number is None:
            self._last_number = await self._database.read(newest_number)
            await self._prune(await self._database.read(newest_base))
        number = self._next_number()
        await self._save_waiting(number, found.ranking.held_back)
        live, leaves, others = await asyncio.to_thread(self._built, found, number)
        for last in await self._stage(leaves):
            await self._database.write(last, role=ROLE)
        await self._when_staged()
        rest = await self._stage(others)
        carried = await self._catch_up(live, number)
        async with self.lock:
            made = await self._publish(found, live, number, rest, carried=carried)
        self._source.associations.settle(found.settlement.associations)
        await self._prune(number)
        return made

    async def forget(self) -> None:
        """Forget the order after a failed write, until a full pass: it may differ from the records."""
        async with self.lock:
            self.live, self.backlog, self.unapplied = None, None, []

    def _next_number(self) -> int:
        assert self._last_number is not None  # noqa: S101 - save_full comes first
        self._last_number += 1
        return self._last_number

    def _built(self, found: FullPass, number: int) -> tuple[LiveOrder, Iterator[Stage], Iterator[Stage]]:
        live = LiveOrder(
            number, found.ranking, found.state, found.settings, found.factors, found.columns, self._source.jobs.amounts
        )
        record = self._record(found, number)
        return live, leaf_stages(record), stages(record)

    def _record(self, found: FullPass, number: int) -> GenerationRecord:
        nodes, cores = found.state.partition_nodes.tolist(), found.state.partition_cores.tolist()
        partitions = found.state.names.partitions
        return GenerationRecord(
            number=number,
            revision=found.revision,
            ranking=found.ranking,
            factors=found.columns,
            parameters=[
                (f"{factor.name}.{name}", value)
                for factor in found.factors
                for name, value in factor.parameters().items()
            ],
            partitions=list(zip(partitions, nodes, cores, strict=True)),
            association_ids=self._source.associations.node_ids,
        )

    async def _stage(self, parts: Iterator[Stage]) -> list[Stage]:
        """Write all parts except the last; returns that one for the commit that makes them visible."""
        stage = await asyncio.to_thread(next, parts, None)
        while stage is not None:
            following = await asyncio.to_thread(next, parts, None)
            if following is None:
                return [stage]
            await self._database.write(stage, role=ROLE)
            stage = following
        return []

    async def _catch_up(self, live: LiveOrder, number: int) -> bool:
        """Add most changes since the beginning of the pass to its order before it is visible; returns whether any.

        It ends even if changes arrive faster than it adds them. The last commit adds the rest.
        """
        carried, rounds = False, 2 * len(self.backlog or []) + ROUNDS
        while self.backlog and sum(map(len, self.backlog)) > FEW and rounds > 0:
            stage = await asyncio.to_thread(live.apply, self.backlog.pop(0), number)
            if stage is not None:
                await self._database.write(stage, role=ROLE)
            carried, rounds = True, rounds - 1
        return carried

    async def _publish(
        self, found: FullPass, live: LiveOrder, number: int, rest: list[Stage], *, carried: bool
    ) -> list[Header]:
        left, self.backlog, self.unapplied = self.backlog or [], None, []
        full = self._full_header(found, number)
        taken = [stage for changes in left if (stage := live.apply(changes, number)) is not None]
        made = [full]
        if carried or left or (self.newest is not None and self.newest.number > number):
            made.append(self._delta_header(live, full))
        new_jobs = self._source.jobs.new_jobs
        made[-1] = msgspec.structs.replace(made[-1], new_jobs=new_jobs)
        views = found.columns if found.columns != self._shown else None
        last = [publish(full if len(made) > 1 else made[-1], found.settlement, views), *map(publish, made[1:])]
        head = live.head()
        await self._write_together([*rest, *taken, *last, head_stage(self._head, head)])
        self._source.jobs.new_jobs -= new_jobs
        self._head, self._shown, self.live, self.newest = head, found.columns, live, made[-1]
        return made

    async def save_delta(self, changes: Changes, durations: dict[str, float]) -> Header | None:
        """Make a delta generation; returns None if the order cannot show the changes. The caller holds the lock."""
        live, newest = self.live, self.newest
        if live is None or newest is None:
            return None
        begun, number = time.perf_counter(), self._next_number()
        stage = live.apply(changes, number)
        if stage is None:
            return None
        head = live.head()
        new_jobs = self._source.jobs.new_jobs
        header = msgspec.structs.replace(
            newest,
            number=number,
            base=live.number,
            made_at=self._clock(),
            revision=changes.revision,
            jobs=live.n_ranked,
            new_jobs=new_jobs,
            durations=durations | {"rank": time.perf_counter() - begun},
        )
        await self._write_together([stage, publish(header), head_stage(self._head, head)])
        self._source.jobs.new_jobs -= new_jobs
        self._head, self.newest = head, header
        return header

    async def _write_together(self, parts: Sequence[Stage | None]) -> None:
        stage = together([part for part in parts if part is not None])
        await self._database.write(stage, role=ROLE)

    def _full_header(self, found: FullPass, number: int) -> Header:
        ranking = found.ranking
        return Header(
            number=number,
            base=number,
            ranked_at=ranking.now,
            made_at=self._clock(),
            policy=found.settings.policy,
            revision=found.revision,
            jobs=len(ranking.ids),
            new_jobs=0,
            weights={row.name: row.weight for row in ranking.priorities.factors},
            durations=found.durations,
            failures={error.factor: error.message for error in ranking.priorities.failures},
            configuration=found.configuration,
        )

    def _delta_header(self, live: LiveOrder, full: Header) -> Header:
        revision = full.revision if live.revision is None else live.revision
        return msgspec.structs.replace(full, number=self._next_number(), revision=revision, jobs=live.n_ranked)

    async def _save_waiting(self, number: int, waiting: frozenset[int]) -> None:
        """Store the waiting applications. Skipped if there are none now, nor in this process's last generation."""
        if waiting or self._waiting != waiting:
            await self._database.write(lambda c: save_waiting_applications(c, number, waiting), role=ROLE)
        self._waiting = waiting

    async def _prune(self, base: int) -> None:
        """Delete the rows of full generations other than ``base``."""
        for table in await self._database.read(lambda c: stale_tables(c, base)):
            while await self._database.write(lambda c, table=table: prune(c, table, base), role=ROLE):  # type: ignore[misc]
                pass
