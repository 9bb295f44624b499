"""Notes events of jobs that notify: from the stream at once, and from the records whatever the stream has lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.bus.consumer import GivenConsumer
from rankd.core.errors import Unavailable
from rankd.core.model.service_setting import NotificationSettings
from rankd.services.notifier.statistic import NotifierStatistic
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Patience
from rankd.store.engine.database import Database
from rankd.store.feed.notification import missed_events, noted_until
from rankd.store.record.notification import move_noted, note_events
from rankd.wire.codec import UNREADABLE
from rankd.wire.subject import NOTIFIER, STREAM_EVENTS, job_event_pattern

log = logging.getLogger("rankd.notifier")

BATCH = 64
SWEEP_S = 30.0
"""How often the records are searched for events that did not come by the stream."""
SWEEP_BOUND_S = 300.0
AT_ONCE = 500
"""Events that one transaction notes."""


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What the notifier reads of an event; all else is skipped."""

    id: int
    notifies: bool = False


class MarkedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the stream."""

    events: list[Marked]


_decode = msgspec.json.Decoder(MarkedEvents).decode


class EventReader:
    """Follows the events. ``wake`` is called after new notifications were noted."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        settings: Callable[[], NotificationSettings],
        statistic: NotifierStatistic,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._database = database
        self._bus = bus
        self._settings = settings
        self._statistic = statistic
        self._wake = wake
        self._clock = clock
        self._consumer = GivenConsumer(bus, STREAM_EVENTS, NOTIFIER, [job_event_pattern()], BATCH)

    async def follow(self) -> None:
        """Note events of the stream until cancelled."""
        patience = Patience("notifications", log)
        async for messages in self._consumer.batches():
            while True:
                try:
                    await self._take(messages)
                except Unavailable as error:
                    await patience.wait(error)
                else:
                    patience.over()
                    break

    async def _take(self, messages: Sequence[Msg]) -> None:
        """Note the events of these messages, durably, then acknowledge. Lost acknowledgements bring them again.

        Events up to the mark of :meth:`sweep` are noted. A stream that was made anew brings events of days ago again,
        whose notifications may have been deleted since.
        """
        noted = await self._database.read(noted_until)
        await self._note([event for event in self._marked(messages) if event > noted])
        for message in messages:
            try:
                await message.ack()
            except LOST as lost:
                log.debug("could not acknowledge: %s", lost)

    def _marked(self, messages: Sequence[Msg]) -> list[int]:
        """The events that may notify. A message that can't be read is counted and passed: the records have all."""
        found = []
        for message in messages:
            try:
                found += [event.id for event in _decode(message.data).events if event.notifies]
            except UNREADABLE:
                self._bus.unreadable[STREAM_EVENTS] += 1
        return found

    async def _note(self, events: Sequence[int]) -> None:
        for start in range(0, len(events), AT_ONCE):
            part = events[start : start + AT_ONCE]
            work = partial(note_events, events=part, settings=self._settings(), now=self._clock())
            number = await self._database.write(work, role=NOTIFIER)
            self._statistic.noted(number)
            if number:
                self._wake()

    async def sweep(self) -> None:
        """Search the records again and again until cancelled."""
        loop, patience = self._bus.loops.add("missed events", SWEEP_BOUND_S), Patience("missed events", log)
        while True:
            loop.beat()
            try:
                while await self.sweep_once():
                    loop.beat()
            except Unavailable as error:
                await patience.wait(error)
                continue
            patience.over()
            await asyncio.sleep(SWEEP_S)

    async def sweep_once(self) -> bool:
        """Look at the next events; returns whether there are more."""
        after = await self._database.read(noted_until)
        missed = await self._database.read(lambda connection: missed_events(connection, after))
        await self._note(missed.events)
        if missed.last > after:
            last = missed.last
            await self._database.write(lambda connection: move_noted(connection, last), role=NOTIFIER)
        return missed.more
