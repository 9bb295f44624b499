"""The factors of the passes: the configured ones, with values from adapters, and their last good values."""

from __future__ import annotations

from collections.abc import Sequence

from rankd.bus.connection import Bus
from rankd.config.plugin import load_factors
from rankd.core.adapter.input import FactorRow
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.external_value import ExternalValues, with_external_values
from rankd.core.ranking.factor import Factor
from rankd.core.ranking.priority import FactorValues
from rankd.core.ranking.ranking import Ranking, RankingState
from rankd.mirror.live_order import LiveOrder, gained_values
from rankd.plugin.worker_factor import workers_among
from rankd.services.prioritizer.factor_watch import FactorWatch, last_stored
from rankd.store.engine.connection import Connection
from rankd.store.record.adapter import InForce
from rankd.wire.diag import PluginDiag


class FactorSet:
    """The configured factors, with and without external values, and their last good values.

    ``configured``: the factors with a weight in ``settings``. ``used``: the same with external values, as in the last
    pass. ``last_good``: by factor, the values of the last pass in which it did not fail.
    """

    def __init__(self, settings: PrioritySettings, bus: Bus) -> None:
        self.settings = settings
        self.configured = load_factors(settings)
        self.used: Sequence[Factor] = self.configured
        self.last_good: dict[str, FactorValues] = {}
        self._external: dict[str, ExternalValues] = {}
        self._retired: list[Factor] = []
        """Factors of an earlier configuration. Deltas use them until a pass has used others."""
        self._watch = FactorWatch(bus)

    def configure(self, settings: PrioritySettings, factors: list[Factor]) -> None:
        """Use these factors from the next pass on, if the settings have changed."""
        if settings != self.settings:
            self.settings = settings
            self._retired += self.configured
            self.configured = self.used = factors

    def use_inputs(self, found: InForce) -> None:
        """Use the inputs of adapters from the next pass on. This may take a while, so call it in a thread."""
        self._external = external_values(found)

    def read_last_good(self, connection: Connection) -> None:
        """Continue after a start with the values that the newest generation stores."""
        self.last_good = last_stored(connection, self.configured)

    def prepare(self, state: RankingState, live: LiveOrder | None) -> None:
        """Prepare the factors for a pass over ``state``. Runs in the pass's thread."""
        self.last_good |= self._watch.prepare(self.configured)
        self.last_good |= gained_values(self.last_good, live)
        self.used = with_external_values(self.configured, self._external, state.tree, state.association_ids)

    async def keep_good(self, ranking: Ranking, now: float) -> None:
        """Keep the values that the factors returned in a pass, and report those that failed."""
        failures = ranking.priorities.failures
        failed = {error.factor for error in failures}
        for factor in ranking.priorities.factors:
            if factor.name not in failed:
                self.last_good[factor.name] = factor
        await self._watch.note(failures, now)

    def close_retired(self) -> None:
        """End the workers of factors that are no longer used."""
        retired, self._retired = self._retired, []
        for worker in workers_among(retired):
            worker.close()

    def diag(self) -> dict[str, PluginDiag]:
        """The state of the factors' workers."""
        return self._watch.diag()


def external_values(found: InForce) -> dict[str, ExternalValues]:
    """The values of all adapters together, by factor."""
    rows: dict[str, list[FactorRow]] = {}
    for stored in found.inputs:
        if stored.input.factor is not None:
            rows.setdefault(stored.input.factor, []).extend(stored.input.values)
    return {factor: ExternalValues.of(listed) for factor, listed in rows.items()}
