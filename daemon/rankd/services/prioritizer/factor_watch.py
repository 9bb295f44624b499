"""Starts the workers of factors before a pass, and publishes which factors fail.

An event is published when a factor begins to fail and when it recovers. The failures of each pass are in its
generation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import FactorError
from rankd.core.ranking.factor import Factor
from rankd.core.ranking.priority import FactorValues
from rankd.plugin.worker_factor import late_values, start_workers, workers_among
from rankd.store.engine.connection import Connection
from rankd.store.feed.factor_value import stored_values
from rankd.wire.diag import PluginDiag
from rankd.wire.message import FactorEvent
from rankd.wire.subject import factor_event

log = logging.getLogger("rankd.factor")

START_PATIENCE_S = 5.0
"""The first pass with new factors waits this long for their workers."""


class FactorWatch:
    """Watches the factors that the last pass used."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._factors: Sequence[Factor] = ()
        self._failing: dict[str, str] = {}
        """The last message of each failing factor."""

    def prepare(self, factors: Sequence[Factor]) -> dict[str, FactorValues]:
        """Start new factors' workers, in the pass's thread; returns values that arrived after an earlier deadline."""
        if factors is not self._factors:
            self._factors = factors
            start_workers(factors, START_PATIENCE_S)
        return late_values(factors)

    async def note(self, failures: Iterable[FactorError], at: float) -> None:
        """Report the factors that failed in a pass, and those that failed before and now work."""
        failing = {error.factor: error.message for error in failures}
        before, self._failing = self._failing, failing
        for factor in failing.keys() - before.keys():
            log.error("%s; its last good values stay in force", failing[factor])
            await self._publish(FactorEvent(factor=factor, event="failed", at=at, message=failing[factor]))
        for factor in before.keys() - failing.keys():
            log.info("factor '%s' returns values again", factor)
            await self._publish(FactorEvent(factor=factor, event="recovered", at=at))

    async def _publish(self, event: FactorEvent) -> None:
        try:
            await self._bus.publish(factor_event(event.factor), event)
        except LOST as error:  # the generation shows the failure
            log.info("the event of factor '%s' was not sent: %s", event.factor, error)

    def diag(self) -> dict[str, PluginDiag]:
        """The state of the factors' workers."""
        return {
            worker.name: PluginDiag(
                pid=worker.pid,
                state=worker.counts.state,
                asked=worker.counts.asked,
                failed=worker.counts.failed,
                late=worker.counts.late,
                ended=worker.counts.ended,
                last_s=worker.counts.last_s,
                message=worker.counts.message or None,
            )
            for worker in workers_among(self._factors)
        }


def last_stored(connection: Connection, factors: Iterable[Factor]) -> dict[str, FactorValues]:
    """The values of factors with a worker that the newest generation stores. Called after a start."""
    workers = {worker.name: worker for worker in workers_among(factors)}
    found = stored_values(connection, workers)
    for name, values in found.items():
        workers[name].expect(values.per)
    return found
