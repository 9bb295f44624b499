"""What one process exports: its own figures from memory, and what it collects about the site.

A service adds its sources while it starts. The figures are made when somebody asks: at the process's own port
(:mod:`.listener`), or over the bus for those who collect (:mod:`.site`). They are no second measurement: each source
reads what the service keeps anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from nats.aio.msg import Msg

import rankd
from rankd.bus.connection import Bus
from rankd.core.metric.figure import Figure, flag
from rankd.core.metric.label import bounded
from rankd.services.runtime.metric.process import disk_figures, process_figures
from rankd.wire.codec import encode
from rankd.wire.diag import ConfigurationDiag
from rankd.wire.figures import Figures
from rankd.wire.subject import figures_subject

log = logging.getLogger("rankd.metrics")

Source = Callable[[], Iterable[Figure]]
Collecting = Callable[[], Awaitable[Iterable[Figure]]]


class Exported:
    """The sources of one process of ``service``."""

    def __init__(self, service: str) -> None:
        self.service = service
        self._own: list[Source] = []
        self._collecting: list[Collecting] = []
        self._health: Source | None = None

    def add(self, source: Source) -> None:
        """Also export what this function returns from memory."""
        self._own.append(source)

    def collect(self, source: Collecting) -> None:
        """Also export what this function collects from elsewhere. It is not asked over the bus."""
        self._collecting.append(source)

    def disk(self, name: str, path: str) -> None:
        """Also export how full the disk of this directory or file is."""
        self._own.append(lambda: disk_figures(self.service, name, path))

    def bus(self, bus: Bus) -> None:
        """Also export the state of this connection and of the service's loops."""
        self._health = lambda: self._of_bus(bus)

    def configuration(self, shown: Callable[[], ConfigurationDiag]) -> None:
        """Also export which configuration the service uses."""
        self._own.append(lambda: self._of_configuration(shown()))

    async def answer(self, bus: Bus) -> None:
        """Answer who collects over the bus for as long as the connection lives."""

        async def answer(message: Msg) -> None:
            if bus.replies.may_answer(message.subject, message.reply):
                await message.respond(encode(Figures(service=self.service, figures=self.own())))

        self.bus(bus)
        await bus.listen(figures_subject(self.service), answer)

    def own(self) -> list[Figure]:
        """The figures of this process. A source that fails is left out: the others are still worth having."""
        found = [Figure("rankd_service_info", 1, (self.service, rankd.__version__)), *process_figures(self.service)]
        for source in (*([] if self._health is None else [self._health]), *self._own):
            try:
                found += source()
            except Exception:  # a bug in a figure must not hide the others, nor end the service
                log.exception("some figures of %s can't be made", self.service)
        return found

    async def all(self) -> list[Figure]:
        """The figures of this process, and those that it collects."""
        found = self.own()
        for source in self._collecting:
            found += await source()
        return found

    def _of_bus(self, bus: Bus) -> list[Figure]:
        service = self.service
        return [
            flag("rankd_service_healthy", bus.loops.verdict() is None, service),
            flag("rankd_bus_connected", bus.client.is_connected, service),
            *(
                Figure("rankd_unreadable_messages_total", number, (service, kind))
                for kind, number in bounded(bus.unreadable).items()
            ),
        ]

    def _of_configuration(self, shown: ConfigurationDiag) -> list[Figure]:
        found = [Figure("rankd_configuration_failures_total", shown.failed, (self.service,))]
        if shown.number is not None:
            found.append(Figure("rankd_configuration", shown.number, (self.service,)))
        return found
