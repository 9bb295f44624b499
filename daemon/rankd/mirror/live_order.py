"""A full generation with the changes of its deltas. Takes changes, and returns the writes to the records.

Deltas are computed for the instant and the keys of the full generation. Some changes cannot be expressed this way: a
queue or an association that the pass did not know, or a factor that fails only now. They make the order stale, and a
full pass is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.application_order import filter_policy, jobs_of
from rankd.core.ranking.columns import NO_GROUP, BoolArray, IntArray, JobColumns
from rankd.core.ranking.delta import Delta
from rankd.core.ranking.factor import Factor, FactorContext, Per
from rankd.core.ranking.order import NO_LEAF, Applications
from rankd.core.ranking.pass_factor import pass_factors
from rankd.core.ranking.priority import FactorValues, Priorities, compute_priorities, with_values
from rankd.core.ranking.queue_tally import QueueTally
from rankd.core.ranking.ranking import Ranking, RankingState
from rankd.store.record.delta import DeltaRows, value_stage
from rankd.store.record.generation import HEAD, Stage, queue_stage, together
from rankd.store.schema.view import FactorColumn


class Changes(NamedTuple):
    """Changes of jobs: ``gone`` are no longer pending, ``jobs`` are pending, with their present values.

    ``tasks``: the pending tasks of each array. ``revision``: the last event that is included. ``is_shown``: whether a
    generation would show any of the changes.
    """

    gone: IntArray
    jobs: JobColumns
    revision: int
    is_shown: bool
    applications: Applications | None
    tasks: Mapping[int, int] = {}

    def __len__(self) -> int:
        """The number of changed jobs."""
        return len(self.gone) + len(self.jobs)


class LiveOrder:
    """The order that is based on the full generation ``number``.

    ``columns`` describe the ``factors``. New shapes are appended to the list ``shapes``.
    """

    def __init__(
        self,
        number: int,
        ranking: Ranking,
        state: RankingState,
        settings: PrioritySettings,
        factors: Sequence[Factor],
        columns: Sequence[FactorColumn],
        shapes: Sequence[Resources],
    ) -> None:
        assert ranking.base is not None  # noqa: S101 - it was made for deltas
        ranking.base.prepare()
        self.number = number
        self.ranked_at = ranking.now
        self.revision: int | None = None
        """The last event that the delta includes; None while it is empty."""
        self.is_stale = False
        self.is_broken = False
        """Set if deltas would not show the values by which they rank. Then no change can be added."""
        self.gained: dict[str, dict[int, float]] = {}
        """Stored values of jobs that changed since the pass, by factor, then by job."""
        self._settings = settings
        self._factors = pass_factors(factors, ranking.priorities.factors)
        self._stored = [column.name for column in columns if column.sql is None and column.per == "job"]
        self._failed = {error.factor for error in ranking.priorities.failures}
        self._formulas = {column.name for column in columns if column.sql is not None}
        self._last_good: Mapping[str, FactorValues] = {row.name: row for row in ranking.priorities.factors}
        self._groups = msgspec.structs.replace(ranking.groups, shapes=shapes)
        self._delta = Delta(ranking.base)
        self._held_back = ranking.held_back
        self._filtering = np.array(_filtering(state), dtype=np.int64)
        self._tally = QueueTally(
            ranking.base, ranking.queues, state.queues, shapes, _unranked(ranking, state), state.tasks
        )
        self._applications = state.applications
        self._rows = DeltaRows(number)

    def __len__(self) -> int:
        """The number of the delta's entries."""
        return len(self._delta)

    @property
    def n_ranked(self) -> int:
        """The number of ranked jobs."""
        return self._delta.n_ranked

    def head(self) -> IntArray:
        """The first jobs of the ranking."""
        return self._delta.head(HEAD)

    def apply(self, changes: Changes, number: int) -> Stage | None:
        """Apply changes; returns what generation ``number`` writes, or None if a delta cannot express them."""
        if self.is_broken:
            return None
        self._applications = changes.applications or self._applications
        jobs = self._known(changes.jobs)
        context = FactorContext(now=self.ranked_at, jobs=self._of_known_groups(jobs), groups=self._groups)
        computed = compute_priorities(context, self._settings, self._factors, self._last_good)
        failed = {error.factor for error in computed.failures}
        if not self._formulas.isdisjoint(failed):
            self.is_broken = self.is_stale = True
            return None
        self.is_stale |= any(not error.is_passing for error in computed.failures if error.factor not in self._failed)
        eligible, may = jobs.eligible, self._may_be_ranked(jobs)
        placed, counted = np.flatnonzero(eligible & may), np.flatnonzero(eligible)
        unranked = jobs.ids[eligible & ~may]
        self.is_stale |= len(unranked) > 0
        gone = np.concatenate([changes.gone, jobs.ids[~(eligible & may)]])
        edit = self._delta.change(gone, jobs.take(placed), computed.priorities[placed], self._applications)
        gone = np.concatenate([changes.gone, jobs.ids[~eligible]])
        queues = self._tally.change(gone, jobs.take(counted), computed.priorities[counted], changes.tasks)
        self.revision = changes.revision
        return together(
            [
                self._rows.stage(number, edit, self._delta.entries(), unranked.tolist()),
                queue_stage(self.number, queues),
                self._value_stage(jobs, computed),
            ]
        )

    def _known(self, jobs: JobColumns) -> JobColumns:
        """The jobs, without associations that the pass did not know. The next pass computes their users' shares."""
        new = jobs.associations >= len(self._groups.fairshares)
        self.is_stale |= bool(new.any())
        return msgspec.structs.replace(jobs, associations=np.where(new, NO_GROUP, jobs.associations))

    def _of_known_groups(self, jobs: JobColumns) -> JobColumns:
        """The jobs for factors. QoS and queues that the pass did not know have no effect until the next pass."""
        qos, queues = jobs.qos >= len(self._groups.qos_priorities), jobs.queues >= len(self._groups.queue_factors)
        self.is_stale |= bool(qos.any() or queues.any())
        return msgspec.structs.replace(
            jobs, qos=np.where(qos, NO_GROUP, jobs.qos), queues=np.where(queues, NO_GROUP, jobs.queues)
        )

    def _may_be_ranked(self, jobs: JobColumns) -> BoolArray:
        """Which jobs may be ranked: those in leaves that the pass knew, except for applications that are held back."""
        may: BoolArray = self._delta.base.leaves(jobs.queues) != NO_LEAF
        if len(self._filtering):
            passing = np.unique(self._delta.base.jobs.applications[self._delta.base.places])
            filtered = np.isin(jobs.queues, self._filtering) & (jobs.applications != NO_GROUP)
            may &= ~(filtered & ~np.isin(jobs.applications, passing))
        return may

    def _value_stage(self, jobs: JobColumns, computed: Priorities) -> Stage:
        """Store the values of factors that have no formula in SQL."""
        failed = {error.factor for error in computed.failures}
        for factor in computed.factors:
            if factor.name in self._stored and factor.name not in failed:
                found = zip(jobs.ids.tolist(), factor.values.tolist(), strict=True)
                self.gained.setdefault(factor.name, {}).update(found)
        values = [
            (factor.name, key, value)
            for factor in computed.factors
            if factor.name in self._stored
            for key, value in zip(jobs.ids.tolist(), factor.values.tolist(), strict=True)
        ]
        return value_stage(self.number, values)


def gained_values(last_good: Mapping[str, FactorValues], live: LiveOrder | None) -> dict[str, FactorValues]:
    """The last good values, updated with those of jobs that changed since."""
    gained = {} if live is None else {name: dict(found) for name, found in list(live.gained.items())}
    return {
        name: with_values(last_good[name], found)
        for name, found in gained.items()
        if name in last_good and last_good[name].per is Per.JOB
    }


def _filtering(state: RankingState) -> list[int]:
    """The leaves that may hold back applications."""
    return [view.id for views in state.queues for view in views if filter_policy(view) is not None]


def _unranked(ranking: Ranking, state: RankingState) -> dict[int, int]:
    """The highest priority of the jobs that are held back, by leaf."""
    if not ranking.held_back:
        return {}
    places = np.flatnonzero(state.jobs.eligible & jobs_of(ranking.held_back, state.jobs))
    best: dict[int, int] = {}
    columns = zip(state.jobs.queues[places].tolist(), ranking.priorities.priorities[places].tolist(), strict=True)
    for queue, priority in columns:
        best[queue] = max(priority, best.get(queue, priority))
    return best
