"""What the scheduler tells others. The records hold everything: a lost message costs time and nothing else.

The scheduler sends three things. A wake-up for the other services after each commit of allocations. A wake-up for each
node for which an allocation waits, again and again until the node has taken it. An event when generations are overdue,
and when they come again.
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
        """Allocations were committed."""

    async def wake_nodes(self, nodes: Sequence[str]) -> None:
        """Allocations wait for these nodes."""

    async def report(self, event: SchedulerEvent) -> None:
        """Generations are overdue, or come again."""


class BusOutbox:
    """Sends over the bus, in the name of the service ``role``."""

    def __init__(self, bus: Bus, role: str) -> None:
        self._bus = bus
        self._role = role

    async def wake_services(self) -> None:
        """Allocations were committed."""
        await announce(self._bus, self._role)

    async def wake_nodes(self, nodes: Sequence[str]) -> None:
        """Allocations wait for these nodes."""
        try:
            for node in nodes:
                await self._bus.publish(node_subject(node, "allocation"), Waits())
        except LOST as error:
            log.log(self._bus.wait_level, "nodes can't be woken for their allocations yet: %s", error)

    async def report(self, event: SchedulerEvent) -> None:
        """Generations are overdue, or come again; `rankd diag` shows it too."""
        try:
            await self._bus.publish(EVENT_SCHEDULER, event)
        except LOST as error:
            log.info("the event '%s' of the scheduler was not sent: %s", event.event, error)
