"""``diag.show``: what the services report about themselves, and the records about the relay and the adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.diag_request import ask_diag
from rankd.bus.endpoint import Reply, Verb
from rankd.core.admission.permission import check
from rankd.core.admission.submitter import Submitter
from rankd.services.intake.look_turns import LookTurns
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.look import adapter_list
from rankd.store.look.drained_node import drained_nodes
from rankd.store.look.failed_device import failed_devices
from rankd.store.look.notification_backlog import notification_backlog
from rankd.store.look.relay_backlog import relay_backlog
from rankd.store.look.service_list import role_holders
from rankd.store.look.start_range import forecast_record
from rankd.wire.codec import decode_strict
from rankd.wire.diag import (
    ConfigurationDiag,
    Diag,
    DiagAsked,
    EstimateDiag,
    ForecasterDiag,
    NotifierDiag,
    PrioritizerDiag,
    RoleDiag,
    SchedulerDiag,
    StreamDiag,
)
from rankd.wire.message import Health
from rankd.wire.subject import NOTIFIER


def diag_verb(
    turns: LookTurns,
    bus: Bus,
    health: Callable[[], Awaitable[Health]],
    configuration: Callable[[], ConfigurationDiag],
    foreign: Callable[[], int],
    streams: Callable[[], list[StreamDiag]],
    clock: Clock,
    intakes: Callable[[], Awaitable[list[Health]]] | None = None,
) -> Verb:
    """The endpoint. A service that does not answer within two seconds is left out.

    ``health`` and ``configuration`` are the intake's own; ``foreign``: how many foreign reports it has had;
    ``streams``: what it found at the last look; ``intakes`` asks all of them, where there may be several.
    """

    async def show(asker: Submitter, payload: bytes) -> Reply:
        reset = decode_strict(payload, DiagAsked).reset
        if reset:
            check(asker, "diag.show reset")
        own, answering, scheduler, prioritizer, notifier, forecaster = await asyncio.gather(
            health(),
            _none() if intakes is None else intakes(),
            ask_diag(bus, "scheduler", SchedulerDiag, reset=reset),
            ask_diag(bus, "prioritizer", PrioritizerDiag, reset=reset),
            ask_diag(bus, NOTIFIER, NotifierDiag, reset=reset),
            ask_diag(bus, "forecaster", ForecasterDiag, reset=reset),
        )
        now = clock()
        return Diag(
            at=now,
            health=own,
            intakes=answering,
            scheduler=scheduler,
            prioritizer=prioritizer,
            configuration=configuration(),
            unreadable=dict(bus.unreadable),
            foreign_reports=foreign(),
            notifier=notifier,
            streams=streams(),
            forecaster=forecaster,
            **await turns.look(asker.user, lambda database: _recorded(database, now)),
        )

    return Verb("diag.show", show)


async def _none() -> list[Health]:
    return []


def _recorded(database: Connection, now: float) -> dict[str, Any]:
    """The parts of the answer that stand in the records."""
    return {
        "relay": relay_backlog(database, now),
        "adapters": adapter_list.adapters(database),
        "notifications": notification_backlog(database, now),
        "devices": failed_devices(database),
        "nodes": drained_nodes(database),
        "roles": [RoleDiag(**row) for row in role_holders(database.connection)],
        "estimates": msgspec.convert(forecast_record(database.connection), EstimateDiag),
    }
