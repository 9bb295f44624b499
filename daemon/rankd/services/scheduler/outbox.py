"""The messages of the scheduler to others. The records hold everything, so a lost message only costs time.

The scheduler sends three kinds. After each commit of allocations, it wakes the other services. It wakes each node for
which an allocation waits, repeatedly until the node has requested it. It sends an event when generations are overdue,
and another when they arrive again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from rankd.bus.connection import LOST, Bus
from rankd.services.runtime.life import announce
from rankd.wire.message import SchedulerEvent, Waits
from rankd.wire.subject import EVENT_SCHEDULER, node_subject

log = logging.getLogger("rankd.scheduler")


class Outbox(Protocol):
    """Sends; no method raises if the broker is away."""

    async def wake_services(self) -> None:
        """Announce that allocations were committed."""

    async def wake_nodes(self, nodes: Sequence[str]) -> None:
        """Announce that allocations wait for these nodes."""

    async def report(self, event: SchedulerEvent) -> None:
        """Report that generations are overdue, or arrive again."""


class BusOutbox:
    """Sends over the bus, in the name of the service ``role``."""

    def __init__(self, bus: Bus, role: str) -> None:
        self._bus = bus
        self._role = role

    async def wake_services(self) -> None:
        """Announce that allocations were committed."""
        await announce(self._bus, self._role)

    async def wake_nodes(self, nodes: Sequence[str]) -> None:
        """Announce that allocations wait for these nodes."""
        try:
            for node in nodes:
                await self._bus.publish(node_subject(node, "allocation"), Waits())
        except LOST as error:
            log.log(self._bus.wait_level, "nodes can't be woken for their allocations yet: %s", error)

    async def report(self, event: SchedulerEvent) -> None:
        """Report that generations are overdue, or arrive again; `rankd diag` shows it too."""
        try:
            await self._bus.publish(EVENT_SCHEDULER, event)
        except LOST as error:
            log.info("the event '%s' of the scheduler was not sent: %s", event.event, error)
