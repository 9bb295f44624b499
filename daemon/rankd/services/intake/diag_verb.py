"""``diag.show``: what the services say of themselves, and what the records say of the relay and of adapters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rankd.bus.connection import Bus
from rankd.bus.diag_request import ask_diag
from rankd.bus.endpoint import Reply, Verb
from rankd.core.admission.admit import Submitter
from rankd.core.errors import admins_only
from rankd.services.intake.lookers import Lookers
from rankd.services.intake.relay import MARK
from rankd.store.engine.connection import Connection
from rankd.wire.codec import decode_strict
from rankd.wire.diag import ConfigurationDiag, Diag, DiagRequest, PrioritizerDiag, RelayDiag, SchedulerDiag
from rankd.wire.message import Health

_WAITING = """
SELECT count(*), min(e.at) FROM job_events e
WHERE e.id > (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = ?)"""

_ADAPTERS = "SELECT name, input, plugin, state, rows, read_at, tried_at, failures, message FROM adapter ORDER BY name"


def diag_verb(
    lookers: Lookers, bus: Bus, health: Callable[[], Awaitable[Health]], configuration: Callable[[], ConfigurationDiag]
) -> Verb:
    """The verb; a service that is away is left out after two seconds. ``health``, ``configuration``: the intake's."""

    async def show(asker: Submitter, payload: bytes) -> Reply:
        reset = decode_strict(payload or b"{}", DiagRequest).reset
        if reset and not asker.privileged:
            raise admins_only("resetting what services count", asker.user, "reset")
        own, scheduler, prioritizer = await asyncio.gather(
            health(),
            ask_diag(bus, "scheduler", SchedulerDiag, reset=reset),
            ask_diag(bus, "prioritizer", PrioritizerDiag, reset=reset),
        )
        now = time.time()
        relay, adapters = await lookers.look(asker.user, lambda c: (_relay(c, now), _adapters(c)))
        return Diag(
            at=now,
            health=own,
            scheduler=scheduler,
            prioritizer=prioritizer,
            relay=relay,
            adapters=adapters,
            configuration=configuration(),
            unreadable=dict(bus.unreadable),
        )

    return Verb("diag.show", show)


def _relay(connection: Connection, now: float) -> RelayDiag:
    events, first = connection.exec_driver_sql(_WAITING, (MARK,)).one()
    return RelayDiag(events=events, lag_s=0.0 if first is None else max(now - first, 0.0))


def _adapters(connection: Connection) -> list[dict[str, object]]:
    return [dict(row) for row in connection.exec_driver_sql(_ADAPTERS).mappings()]
