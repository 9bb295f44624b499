"""The relay: publishes events of jobs, nodes, queues and configurations from the records, in order, after the commit.

The records are the outbox, and a watermark marks the last published event. Each event is in the stream once. Messages
that the broker did not acknowledge are sent again unchanged, under the same ids. A relay that starts searches the
stream for events that its predecessor published beyond the watermark.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from rankd.bus.connection import LOST, Bus
from rankd.bus.outage import Spell
from rankd.bus.stream import make_streams
from rankd.core.admission.privacy import public_actor
from rankd.core.errors import Unavailable
from rankd.core.model.setting import Privacy
from rankd.services.intake.stream_end import last_event
from rankd.services.intake.unreadable import keep_aside
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Wake
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.feed.event import Event, NamedEvent, read_unpublished
from rankd.store.record.dead_letter import mark_published, publish_again
from rankd.store.record.queue_event import CONFIGURATION
from rankd.store.record.relay_mark import Mark, move_mark, move_marks_back
from rankd.store.record.unreadable import UnreadableMessage
from rankd.wire.configuration import ConfigurationEvents
from rankd.wire.message import DeadLetter, JobEvents, NodeEvents, QueueChange, QueueEvents, Transition
from rankd.wire.subject import (
    EVENT_CONFIGURATION,
    WAKE,
    dead_letter_subject,
    job_event,
    node_event,
    queue_event,
)

log = logging.getLogger("rankd.relay")

BATCH = 2_000
LETTERS = 100
TOGETHER = 100
"""This many messages are sent before the broker has acknowledged the first of them."""
PER_MESSAGE = 500
"""Even with the longest names, a message of 500 events is small enough for any broker."""
LOOK_EVERY_S = 1.0
MANY = 10
"""After a round with at least this many events, the relay rests. So while there are many, it takes the lock of all
writers less often, for more of them at once."""
REST = 3.0
"""It rests for this many times the round's duration, up to `REST_MOST_S`."""
REST_MOST_S = 0.1
ROUND_S = 60.0

Message = JobEvents | NodeEvents | QueueEvents | ConfigurationEvents


class _Channel(NamedTuple):
    """The subject and message for events of one kind."""

    mark: Mark
    subject: Callable[[str], str]
    message: type[Message]


_CHANNELS = (
    _Channel(Mark.NODES, node_event, NodeEvents),
    _Channel(Mark.QUEUES, queue_event, QueueEvents),
    _Channel(Mark.CONFIGURATIONS, lambda _name: EVENT_CONFIGURATION, ConfigurationEvents),
    _Channel(Mark.JOBS, job_event, JobEvents),
)


class _Outbox:
    """Events of one kind to publish: the same messages until all are acknowledged, then the next ones."""

    def __init__(self, channel: _Channel) -> None:
        self.channel = channel
        self._looked = False
        self._left = deque[tuple[str, Sequence[Event]]]()
        self._last: int | None = None

    def fill(self, new: Sequence[NamedEvent]) -> bool:
        """Group new events by name in messages of up to `PER_MESSAGE` events. Does nothing while messages are left.

        Returns False if it did nothing with these.
        """
        if not new:
            return True
        if self._last is not None:
            return False
        by_name: dict[str, list[Event]] = {}
        for name, event in new:
            by_name.setdefault(name, []).append(event)
        for name, events in by_name.items():
            for start in range(0, len(events), PER_MESSAGE):
                self._left.append((self.channel.subject(name), events[start : start + PER_MESSAGE]))
        self._last = new[-1].event.id
        return True

    async def look(self, bus: Bus, now: float) -> Sequence[UnreadableMessage]:
        """Drop what is in the stream already; returns unreadable messages.

        Acts with the first events, which a predecessor may have published, and after an error.
        """
        passed: list[UnreadableMessage] = []
        if self._last is None or self._looked:
            return passed
        left = deque[tuple[str, Sequence[Event]]]()
        for subject, events in self._left:
            end = await last_event(bus, subject, self.channel.message, now)
            passed += end.passed
            if behind := _behind(events, end.event):
                left.append((subject, behind))
        self._left, self._looked = left, True
        return passed

    async def publish(self, bus: Bus) -> int | None:
        """Publish all remaining messages. Returns the id of the last published event; None if there was none."""
        while self._left:
            await self._publish_some(bus)
        return self._last

    async def _publish_some(self, bus: Bus) -> None:
        """Publish the next message of some names together. Those of one name are published one after the other."""
        some: dict[str, Sequence[Event]] = {}
        for subject, events in self._left:
            if len(some) == TOGETHER:
                break
            some.setdefault(subject, events)
        ends = await asyncio.gather(*(self._send(bus, *message) for message in some.items()), return_exceptions=True)
        done = {subject for subject, end in zip(some, ends, strict=True) if end is None}
        left = deque[tuple[str, Sequence[Event]]]()
        for subject, events in self._left:
            if subject in done:
                done.remove(subject)
            else:
                left.append((subject, events))
        self._left = left
        if errors := [end for end in ends if end is not None]:
            self._looked = False  # some may be stored, and the broker forgets their ids after a while
            raise errors[0]

    async def _send(self, bus: Bus, subject: str, events: Sequence[Event]) -> None:
        message_id = f"{self.channel.mark.replace('_', '-')}-{events[0].id}-{events[-1].id}"
        content: list[Any] = list(events)
        await bus.publish_durably(subject, self.channel.message(events=content), message_id)

    def marked(self) -> None:
        """Note that the watermark has passed these events."""
        self._last = None


class Again(NamedTuple):
    """How many events and dead letters are published again."""

    events: int
    letters: int


def _move_back(connection: Connection, since: float) -> Again:
    return Again(move_marks_back(connection, since), publish_again(connection))


def _outboxes() -> list[_Outbox]:
    return [_Outbox(channel) for channel in _CHANNELS]


def _behind(events: Sequence[Event], last: object | None) -> Sequence[Event]:
    """The events after the last one in the stream. Events of a subject are published in the order of their ids."""
    places = [place for place, event in enumerate(events) if _compared(event) == _compared(last)]
    return events[places[0] + 1 :] if places else events


def _compared(event: object) -> object:
    """The event without what may have changed since it was published: whom privacy hides, and marks for services."""
    if isinstance(event, QueueChange):
        return msgspec.structs.replace(event, actor=None)
    return msgspec.structs.replace(event, notifies=msgspec.UNSET) if isinstance(event, Transition) else event


def _public(event: NamedEvent, jobs: Privacy) -> NamedEvent:
    """The event of a queue as everybody may hear it."""
    change = event.event
    if not isinstance(change, QueueChange) or change.actor in (None, CONFIGURATION):
        return event
    return event._replace(event=msgspec.structs.replace(change, actor=public_actor(change.actor, jobs)))


class Relay:
    """Publishes whenever it is woken. ``role`` is its service's role: only the holder moves the watermark.

    ``privacy`` returns what users see of each other at present: all users hear the events of queues.
    """

    def __init__(
        self, database: Database, bus: Bus, role: str, clock: Clock, privacy: Callable[[], Privacy] = lambda: "own"
    ) -> None:
        self.wake = Wake()
        self._privacy = privacy
        self._role = role
        self._clock = clock
        self._database = database
        self._bus = bus
        self._outboxes = _outboxes()
        self._turn = asyncio.Lock()
        self._had_many = False
        self._waiting = Spell(log)

    async def run(self) -> None:
        """Publish until cancelled."""
        await self.wake.listen(self._bus, WAKE, besides=self._role)
        loop = self._bus.loops.add("relay of events", ROUND_S)
        while True:
            loop.beat()
            begun = time.monotonic()
            if not await self.run_once():
                if self._had_many:
                    await asyncio.sleep(min(REST * (time.monotonic() - begun), REST_MOST_S))
                await self.wake.wait(LOOK_EVERY_S)

    async def run_once(self) -> bool:
        """Publish new events; returns whether more may be left. While the broker is away, the watermark stays."""
        async with self._turn:
            return await self._round()

    async def anew(self, remake: Callable[[], Awaitable[None]], since: float) -> Again:
        """Let ``remake`` make the streams anew; what happened since then (UTC seconds) is published into them again.

        The marks move first: if this process dies in between, events are published twice, and none is missing.

        Raises:
            Unavailable: nothing was made anew, or not all streams were.
        """
        async with self._turn:
            again = await self._database.write(lambda c: _move_back(c, since), role=self._role)
            self._outboxes = _outboxes()
            await remake()
        self.wake.set()
        return again

    async def _round(self) -> bool:
        try:
            new = await self._database.read(lambda c: read_unpublished(c, BATCH, LETTERS))
            self._had_many = sum(map(len, new.events.values())) >= MANY
            jobs = self._privacy()
            events = {**new.events, Mark.QUEUES: [_public(event, jobs) for event in new.events[Mark.QUEUES]]}
            has_new = [outbox.fill(events[outbox.channel.mark]) for outbox in self._outboxes]
            for outbox in self._outboxes:
                await self._publish_events(outbox)
            if new.letters:  # after the events: a user's last message with events shows which events are published
                await self._publish_letters(new.letters)
        except Unavailable as error:  # the broker is away, or a disk is full
            self._had_many = False
            self._waiting.note(f"events wait: {error.message}", f"events still wait: {error.message}")
            await self._make_streams()
            return False
        self._waiting.over("events are published again")
        return bool(new.more) or not all(has_new) or len(new.letters) == LETTERS

    async def _make_streams(self) -> None:
        """Make missing streams. A broker that was killed while it made one has lost it, which only shows here."""
        try:
            await make_streams(self._bus)
        except (*LOST, Unavailable) as error:
            log.debug("the streams can't be checked: %s", error)

    async def _publish_events(self, outbox: _Outbox) -> None:
        unreadable = await outbox.look(self._bus, self._clock())
        await keep_aside(self._database, self._bus, self._role, unreadable)
        last = await outbox.publish(self._bus)
        if last is not None:
            mark = outbox.channel.mark
            await self._database.write(lambda connection: move_mark(connection, mark, last), role=self._role)
            outbox.marked()

    async def _publish_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Publish letters to the user's events, without the submission, and to the stream of dead letters."""
        for letter in letters:
            bare = msgspec.structs.replace(letter, submission=None)
            refusal = JobEvents(events=[], refused=[bare])
            await self._bus.publish_durably(job_event(letter.user), refusal, f"refused-{letter.id}")
            await self._bus.publish_durably(dead_letter_subject(letter.user), letter, f"dead-letter-{letter.id}")
        await self._database.write(lambda connection: mark_published(connection, letters), role=self._role)
