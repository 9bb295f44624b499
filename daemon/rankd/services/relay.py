"""The relay: publishes events of jobs, nodes and queues from the records, after their commit, in order.

The records are the outbox; a watermark says how far they are published. A crash in between publishes some
again under the same message id, which the stream stores once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from rankd.bus.connection import Bus
from rankd.core.errors import Unavailable
from rankd.services.runtime import Wake
from rankd.store.database import Database
from rankd.store.dead_letter import mark_published, unpublished
from rankd.wire.message import DeadLetter, JobEvents, NodeChange, NodeEvents, QueueChange, QueueEvents, Transition
from rankd.wire.subject import WAKE, dead_letter_subject, job_event, node_event, queue_event

log = logging.getLogger("rankd.relay")

MARK = "job_events"
NODE_MARK = "node_events"
QUEUE_MARK = "queue_events"
BATCH = 2_000
LETTERS = 100
PER_MESSAGE = 500
"""Even with the longest names, a message of so many is one that brokers take."""
LOOK_EVERY_S = 1.0

_EVENTS = """
SELECT e.id, j."user", e.job_id, e.event, e.state, e.at, e.actor, e.cause
FROM job_events e JOIN jobs j ON j.id = e.job_id
WHERE e.id > (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = ?) ORDER BY e.id LIMIT ?"""

_NODE_EVENTS = """
SELECT id, node, event, at, actor, reason FROM node_events
WHERE id > (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = ?) ORDER BY id LIMIT ?"""

_QUEUE_EVENTS = """
SELECT id, partition, path, event, at, actor FROM queue_events
WHERE id > (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = ?) ORDER BY id LIMIT ?"""

Rows = Sequence[Any]


class _New(NamedTuple):
    """What is not published yet."""

    letters: Sequence[DeadLetter]
    node_events: Rows
    queue_events: Rows
    job_events: Rows


def _read_new(connection: Connection) -> _New:
    """All of it in one transaction: reading costs more for its beginning and end than for its rows."""
    return _New(
        letters=unpublished(connection, LETTERS),
        node_events=connection.exec_driver_sql(_NODE_EVENTS, (NODE_MARK, BATCH)).all(),
        queue_events=connection.exec_driver_sql(_QUEUE_EVENTS, (QUEUE_MARK, BATCH)).all(),
        job_events=connection.exec_driver_sql(_EVENTS, (MARK, BATCH)).all(),
    )


class Relay:
    """Publishes whenever it is woken. ``role`` is that of the service it is in: only its holder moves the mark."""

    def __init__(self, database: Database, bus: Bus, role: str) -> None:
        self.wake = Wake()
        self._role = role
        self._database = database
        self._bus = bus

    async def run(self) -> None:
        """Publish for ever."""
        await self.wake.listen(self._bus, WAKE)
        while True:
            if not await self.run_once():
                await self.wake.wait(LOOK_EVERY_S)

    async def run_once(self) -> bool:
        """Publish what is new; whether there was anything. While the broker is away, nothing is marked."""
        new = await self._database.read(_read_new)
        letters = bool(new.letters) and await self._publish_letters(new.letters)
        nodes = bool(new.node_events) and await self._publish_node_events(new.node_events)
        queues = bool(new.queue_events) and await self._publish_queue_events(new.queue_events)
        return (bool(new.job_events) and await self._publish_events(new.job_events)) or letters or nodes or queues

    async def _publish_letters(self, letters: Sequence[DeadLetter]) -> bool:
        """To the user's events, and to the stream of dead letters."""
        try:
            for letter in letters:
                await self._bus.publish_durably(
                    job_event(letter.user), JobEvents(events=[], refused=[letter]), f"refused-{letter.id}"
                )
                await self._bus.publish_durably(dead_letter_subject(letter.user), letter, f"dead-letter-{letter.id}")
            await self._database.write(lambda connection: mark_published(connection, letters), role=self._role)
        except Unavailable as error:
            log.info("dead letters wait: %s", error)
            return False
        return True

    async def _publish_events(self, rows: Rows) -> bool:
        by_user: dict[str, list[Transition]] = {}
        for id_, user, job, event, state, at, actor, cause in rows:
            transition = Transition(id=id_, job=job, event=event, state=state, at=at, actor=actor, cause=cause)
            by_user.setdefault(user, []).append(transition)
        try:
            for user, events in by_user.items():
                for start in range(0, len(events), PER_MESSAGE):
                    await self._publish(user, events[start : start + PER_MESSAGE])
            last = int(rows[-1][0])
            await self._database.write(lambda connection: _mark(connection, MARK, last), role=self._role)
        except Unavailable as error:  # a broker that is away, a disk that is full
            log.info("events wait: %s", error)
            return False
        return True

    async def _publish_node_events(self, rows: Rows) -> bool:
        by_node: dict[str, list[NodeChange]] = {}
        for id_, node, event, at, actor, reason in rows:
            change = NodeChange(id=id_, node=node, event=event, at=at, actor=actor, reason=reason)
            by_node.setdefault(node, []).append(change)
        try:
            for node, changes in by_node.items():
                for start in range(0, len(changes), PER_MESSAGE):
                    part = changes[start : start + PER_MESSAGE]
                    message_id = f"node-events-{part[0].id}-{part[-1].id}"
                    await self._bus.publish_durably(node_event(node), NodeEvents(events=part), message_id)
            last = int(rows[-1][0])
            await self._database.write(lambda connection: _mark(connection, NODE_MARK, last), role=self._role)
        except Unavailable as error:
            log.info("events of nodes wait: %s", error)
            return False
        return True

    async def _publish_queue_events(self, rows: Rows) -> bool:
        by_queue: dict[str, list[QueueChange]] = {}
        for id_, partition, path, event, at, actor in rows:
            change = QueueChange(id=id_, partition=partition, queue=path, event=event, at=at, actor=actor)
            by_queue.setdefault(path, []).append(change)
        try:
            for path, changes in by_queue.items():
                message_id = f"queue-events-{changes[0].id}-{changes[-1].id}"
                await self._bus.publish_durably(queue_event(path), QueueEvents(events=changes), message_id)
            last = int(rows[-1][0])
            await self._database.write(lambda connection: _mark(connection, QUEUE_MARK, last), role=self._role)
        except Unavailable as error:
            log.info("events of queues wait: %s", error)
            return False
        return True

    async def _publish(self, user: str, events: list[Transition]) -> None:
        message_id = f"job-events-{events[0].id}-{events[-1].id}"
        await self._bus.publish_durably(job_event(user), JobEvents(events=events), message_id)


def _mark(connection: Connection, name: str, event_id: int) -> None:
    connection.exec_driver_sql(
        "INSERT INTO relay_marks (name, event_id) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id",
        (name, event_id),
    )
