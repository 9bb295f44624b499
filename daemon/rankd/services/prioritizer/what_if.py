"""What if other priorities were in force: the live jobs are ranked as they are, and with the change.

The answer is that of :mod:`rankd.core.evaluate.whatif`, but of columns in place of documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rankd.core.errors import ConfigurationError
from rankd.core.evaluate.check import without_weights
from rankd.core.evaluate.diff import Move
from rankd.core.evaluate.mover import Places, movers, moves_of, owners_of, places_of
from rankd.core.evaluate.variation import Variation, check_known
from rankd.core.evaluate.whatif import Owner
from rankd.core.model.job import AcceptedJob
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.ranking import RankingState
from rankd.services.prioritizer.live_columns import Live, with_class_values, with_offsets, with_qos
from rankd.services.prioritizer.new_job import Then, with_new_jobs
from rankd.store.engine.connection import Connection
from rankd.store.feed.pending import jobs_of_class


class Effect(NamedTuple):
    """What a change does: ``pending`` jobs, of which those with the indices ``moved`` have other ranks."""

    live: Live
    before: Places
    after: Places
    moved: IntArray
    then: Then

    @property
    def pending(self) -> int:
        """The number of waiting jobs."""
        return len(self.live.state.jobs)

    def owners(self) -> list[Owner]:
        """The moves by user and account."""
        return owners_of(self.before, self.after, self.moved, self.live.owners)

    def moves(self, limit: int | None = None) -> list[Move]:
        """The moves of the first jobs, by their rank then; of all without ``limit``."""
        return moves_of(self.live.state.jobs.ids, self.before, self.after, self.moved[:limit])


def effect(connection: Connection, live: Live, variation: Variation, new: Sequence[AcceptedJob] = ()) -> Effect:
    """Rank as it is now, and with the change and the ``new`` jobs.

    Raises:
        Refused, ConfigurationError: the change names something unknown, or leaves no weight.
        CannotRank: the values of a factor are not known.
    """
    settings, state = _settings(live, variation), _changed(connection, live.state, live, variation)
    ids = live.state.jobs.ids
    before = places_of(live.ranking(live.state, live.settings), ids)
    if new:
        state = _changed(connection, with_new_jobs(connection, live, new, variation.classes), live, variation)
    ranking = live.ranking(state, settings)
    after = places_of(ranking, state.jobs.ids)
    old = Places(after.ranks[: len(ids)], after.priorities[: len(ids)])
    return Effect(live, before, old, movers(before, old), Then(state, ranking))


def _settings(live: Live, variation: Variation) -> PrioritySettings:
    settings = msgspec.structs.replace(live.settings, weights={**live.settings.weights, **variation.weights})
    if problems := list(without_weights(settings)):
        raise ConfigurationError(problems)
    return settings


def _changed(connection: Connection, state: RankingState, live: Live, variation: Variation) -> RankingState:
    catalog = live.catalog
    if variation.classes:
        check_known(
            variation.classes, sorted(one.name for one in catalog.classes), "priority class", "unknown_priority_class"
        )
        changed = [(jobs_of_class(connection, name), value) for name, value in variation.classes.items()]
        state = with_class_values(state, changed)
    if variation.qos:
        check_known(variation.qos, list(catalog.qos), "QoS", "unknown_qos")
        state = with_qos(state, {catalog.qos[name]: priority for name, priority in variation.qos.items()})
    if variation.queues:
        wanted = {path.lower(): offset for path, offset in variation.queues.items()}
        known = sorted({view.path.lower() for views in state.queues for view in views})
        check_known(wanted, known, "queue", "unknown_queue")
        state = with_offsets(state, wanted)
    return state
