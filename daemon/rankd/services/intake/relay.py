"""The relay: publishes events of jobs, nodes, queues and configurations from the records, after their commit, in order.

The records are the outbox; a watermark says how far they are published. Each event is in the stream once: messages
that the broker did not acknowledge go out again as they were, under the same ids; a relay that starts looks in the
stream for how far the last one came beyond the watermark.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from rankd.bus.connection import LOST, Bus
from rankd.bus.outage import Spell
from rankd.bus.stream import make_streams
from rankd.config.change import Change as Difference
from rankd.core.errors import Unavailable
from rankd.services.intake.stream_end import last_event
from rankd.services.intake.unreadable import keep_aside
from rankd.services.runtime.life import Wake
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.dead_letter import mark_published, unpublished
from rankd.store.record.unreadable import UnreadableMessage
from rankd.wire.configuration import ConfigurationChange, ConfigurationEvents
from rankd.wire.message import DeadLetter, JobEvents, NodeChange, NodeEvents, QueueChange, QueueEvents, Transition
from rankd.wire.subject import (
    EVENT_CONFIGURATION,
    WAKE,
    dead_letter_subject,
    job_event,
    node_event,
    queue_event,
)

log = logging.getLogger("rankd.relay")

MARK = "job_events"
BATCH = 2_000
LETTERS = 100
PER_MESSAGE = 500
"""Even with the longest names, a message of so many is one that brokers take."""
MOST_LINES = 10
"""Of a configuration's changes; the records have all."""
LOOK_EVERY_S = 1.0
ROUND_S = 60.0

_UNMARKED = "> (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = ?)"

Change = Transition | NodeChange | QueueChange | ConfigurationChange
Events = JobEvents | NodeEvents | QueueEvents | ConfigurationEvents


class _Feed(NamedTuple):
    """One kind of event. Rows of ``query`` are in the order of their ids; their first value names the subject."""

    mark: str
    query: str
    subject: Callable[[str], str]
    change: Callable[[Any], Change]
    message: type[Events]


def _configuration_change(row: Any) -> ConfigurationChange:  # noqa: ANN401 - a database row
    changes = msgspec.json.decode(row.changes, type=list[Difference])
    return ConfigurationChange(
        id=row.id,
        event=row.event,
        at=row.at,
        actor=row.actor,
        n_changes=len(changes),
        changes=[str(change) for change in changes[:MOST_LINES]],
    )


_FEEDS = (
    _Feed(
        mark="node_events",
        query="SELECT node AS name, id, event, at, actor, reason"
        f" FROM node_events WHERE id {_UNMARKED} ORDER BY id LIMIT ?",
        subject=node_event,
        change=lambda e: NodeChange(id=e.id, node=e.name, event=e.event, at=e.at, actor=e.actor, reason=e.reason),
        message=NodeEvents,
    ),
    _Feed(
        mark="queue_events",
        query="SELECT path AS name, id, partition, event, at, actor"
        f" FROM queue_events WHERE id {_UNMARKED} ORDER BY id LIMIT ?",
        subject=queue_event,
        change=lambda e: QueueChange(
            id=e.id, partition=e.partition, queue=e.name, event=e.event, at=e.at, actor=e.actor
        ),
        message=QueueEvents,
    ),
    _Feed(
        mark="configurations",
        query=f"SELECT '' AS name, id, event, at, actor, changes FROM configurations WHERE id {_UNMARKED}"
        " ORDER BY id LIMIT ?",
        subject=lambda _name: EVENT_CONFIGURATION,
        change=_configuration_change,
        message=ConfigurationEvents,
    ),
    _Feed(
        mark=MARK,
        query='SELECT j."user" AS name, e.id, e.job_id AS job, e.event, e.state, e.at, e.actor, e.cause'
        f" FROM job_events e JOIN jobs j ON j.id = e.job_id WHERE e.id {_UNMARKED} ORDER BY e.id LIMIT ?",
        subject=job_event,
        change=lambda e: Transition(
            id=e.id, job=e.job, event=e.event, state=e.state, at=e.at, actor=e.actor, cause=e.cause
        ),
        message=JobEvents,
    ),
)


class _Outbox:
    """What of a feed is to go out: the same messages until all of them are acknowledged, then the next ones."""

    def __init__(self, feed: _Feed) -> None:
        self.feed = feed
        self._looked = False
        self._left = deque[tuple[str, Sequence[Change]]]()
        self._last: int | None = None

    def fill(self, rows: Sequence[Any]) -> None:
        """Unless there is something left: by name, in messages of no more than `PER_MESSAGE`."""
        if self._last is not None or not rows:
            return
        by_name: dict[str, list[Change]] = {}
        for row in rows:
            by_name.setdefault(row.name, []).append(self.feed.change(row))
        for name, changes in by_name.items():
            for start in range(0, len(changes), PER_MESSAGE):
                self._left.append((self.feed.subject(name), changes[start : start + PER_MESSAGE]))
        self._last = rows[-1].id

    async def look(self, bus: Bus) -> Sequence[UnreadableMessage]:
        """Once, with the first events: drop what a predecessor has published. What in the stream can't be read."""
        passed: list[UnreadableMessage] = []
        if self._last is None or self._looked:
            return passed
        left = deque[tuple[str, Sequence[Change]]]()
        for subject, changes in self._left:
            end = await last_event(bus, subject, self.feed.message)
            passed += end.passed
            if behind := _behind(changes, end.event):
                left.append((subject, behind))
        self._left, self._looked = left, True
        return passed

    async def publish(self, bus: Bus) -> int | None:
        """Publish all that is left; the id up to which everything is published, None if there is nothing new."""
        while self._left:
            subject, changes = self._left[0]
            message_id = f"{self.feed.mark.replace('_', '-')}-{changes[0].id}-{changes[-1].id}"
            events: list[Any] = list(changes)
            await bus.publish_durably(subject, self.feed.message(events=events), message_id)
            self._left.popleft()
        return self._last

    def marked(self) -> None:
        """The watermark is behind them."""
        self._last = None


def _behind(changes: Sequence[Change], last: object | None) -> Sequence[Change]:
    """Those behind the last one in the stream: events of a subject are published in the order of their ids."""
    places = [place for place, change in enumerate(changes) if change == last]
    return changes[places[0] + 1 :] if places else changes


class _New(NamedTuple):
    """What is not published yet, by feed."""

    letters: Sequence[DeadLetter]
    rows: Sequence[Sequence[Any]]


def _read_new(connection: Connection) -> _New:
    """All of it in one transaction: reading costs more for its beginning and end than for its rows."""
    return _New(
        letters=unpublished(connection, LETTERS),
        rows=[connection.exec_driver_sql(feed.query, (feed.mark, BATCH)).all() for feed in _FEEDS],
    )


class Relay:
    """Publishes whenever it is woken. ``role`` is that of the service it is in: only its holder moves the mark."""

    def __init__(self, database: Database, bus: Bus, role: str) -> None:
        self.wake = Wake()
        self._role = role
        self._database = database
        self._bus = bus
        self._outboxes = [_Outbox(feed) for feed in _FEEDS]
        self._waiting = Spell(log)

    async def run(self) -> None:
        """Publish for ever."""
        await self.wake.listen(self._bus, WAKE, besides=self._role)
        loop = self._bus.loops.add("relay of events", ROUND_S)
        while True:
            loop.beat()
            if not await self.run_once():
                await self.wake.wait(LOOK_EVERY_S)

    async def run_once(self) -> bool:
        """Publish what is new; whether there was anything. While the broker is away, nothing is marked."""
        try:
            new = await self._database.read_at_once(_read_new)
            for outbox, rows in zip(self._outboxes, new.rows, strict=True):
                outbox.fill(rows)
            some = [await self._publish_events(outbox) for outbox in self._outboxes]
            if new.letters:  # behind the events: the last of a user's messages tells how far those are published
                await self._publish_letters(new.letters)
        except Unavailable as error:  # a broker that is away, a disk that is full
            self._waiting.note(f"events wait: {error.message}", f"events still wait: {error.message}")
            await self._make_streams()
            return False
        self._waiting.over("events are published again")
        return any(some) or bool(new.letters)

    async def _make_streams(self) -> None:
        """A broker that was killed while it made a stream has lost it, and nobody else would notice."""
        try:
            await make_streams(self._bus)
        except (*LOST, Unavailable) as error:
            log.debug("the streams can't be looked at: %s", error)

    async def _publish_events(self, outbox: _Outbox) -> bool:
        await keep_aside(self._database, self._bus, self._role, await outbox.look(self._bus))
        last = await outbox.publish(self._bus)
        if last is None:
            return False
        await self._database.write(lambda connection: _mark(connection, outbox.feed.mark, last), role=self._role)
        outbox.marked()
        return True

    async def _publish_letters(self, letters: Sequence[DeadLetter]) -> None:
        """To the user's events, without the submission, and to the stream of dead letters."""
        for letter in letters:
            bare = msgspec.structs.replace(letter, submission=None)
            told = JobEvents(events=[], refused=[bare])
            await self._bus.publish_durably(job_event(letter.user), told, f"refused-{letter.id}")
            await self._bus.publish_durably(dead_letter_subject(letter.user), letter, f"dead-letter-{letter.id}")
        await self._database.write(lambda connection: mark_published(connection, letters), role=self._role)


def _mark(connection: Connection, name: str, event_id: int) -> None:
    connection.exec_driver_sql(
        "INSERT INTO relay_marks (name, event_id) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id",
        (name, event_id),
    )
