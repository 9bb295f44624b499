"""Requests about the broker's streams: compare them with configuration and records, and make them from the records."""

from __future__ import annotations

import asyncio
import time

from rankd.bus.connection import Bus
from rankd.bus.endpoint import Reply, Verb
from rankd.bus.stream_check import close_submissions, make_anew, open_submissions, problems_of, waiting_submissions
from rankd.bus.stream_watch import StreamWatch
from rankd.bus.wanted_stream import EVENTS_KEPT_S, pulled_consumer
from rankd.core.admission.permission import check
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused, Unavailable
from rankd.services.intake.relay import Relay
from rankd.services.intake.stream_end import last_event
from rankd.services.runtime.clock import Clock
from rankd.store.engine.database import Database
from rankd.store.feed.event import LastPublished, last_published
from rankd.wire.codec import decode_strict
from rankd.wire.message import JobEvents, Transition
from rankd.wire.stream import RebuildAsked, Rebuilt, StreamsAsked, StreamsChecked
from rankd.wire.subject import ENQUEUE_PATTERN, STREAM_EVENTS, encode_name, job_event

DRAIN_S = 5.0
"""How long a rebuild waits until the intake has taken the enqueued submissions."""
LOOK_EVERY_S = 0.1


class StreamVerbs:
    """``stream.check`` and ``stream.rebuild``; ``durable``: the name of the intake's consumer of submissions."""

    def __init__(
        self, database: Database, bus: Bus, relay: Relay, watch: StreamWatch, durable: str, clock: Clock
    ) -> None:
        self._database = database
        self._bus = bus
        self._relay = relay
        self._watch = watch
        self._consumer = pulled_consumer(encode_name(durable), [ENQUEUE_PATTERN])
        self._clock = clock

    def verbs(self) -> list[Verb]:
        """The endpoints."""
        return [Verb("stream.check", self.check), Verb("stream.rebuild", self.rebuild)]

    async def check(self, asker: Submitter, payload: bytes) -> Reply:
        """Say how the streams are now, and where they differ from the configuration and the records."""
        check(asker, "stream.check")
        decode_strict(payload, StreamsAsked)
        await self._watch.run_once()
        problems = [alarm for stream in self._watch.found for alarm in stream.alarms]
        problems += await problems_of(self._bus, self._consumer)
        return StreamsChecked(streams=self._watch.found, problems=problems + await self._missing_events())

    async def _missing_events(self) -> list[str]:
        """Whether the stream has lost the last event that it acknowledged."""
        last = await self._database.read(last_published)
        if last is None or self._clock() - last.at > EVENTS_KEPT_S or await self._has(last):
            return []
        lacks = f"the stream {STREAM_EVENTS} lacks event {last.id}, which the records count as published"
        return [f"{lacks}: rankd streams rebuild publishes the events again"]

    async def _has(self, last: LastPublished) -> bool:
        try:
            end = await last_event(self._bus, job_event(last.user), JobEvents, self._clock())
        except Unavailable:
            return True  # nobody knows; its alarm says that it does not answer
        return isinstance(end.event, Transition) and end.event.id >= last.id

    async def rebuild(self, asker: Submitter, payload: bytes) -> Reply:
        """Make the streams anew from the records. Jobs are not touched: the records have them, and not the streams."""
        check(asker, "stream.rebuild")
        asked = decode_strict(payload, RebuildAsked)
        await close_submissions(self._bus)
        try:
            lost = await self._left()
            if lost != 0 and not asked.lose_enqueued:
                raise _would_lose(lost)
            again = await self._relay.anew(
                lambda: make_anew(self._bus, submissions=True), self._clock() - EVENTS_KEPT_S
            )
        finally:
            await open_submissions(self._bus)
        return Rebuilt(events=again.events, letters=again.letters, lost=lost)

    async def _left(self) -> int | None:
        """The enqueued submissions that the intake has not taken in time; None if the stream can't be asked."""
        until = time.monotonic() + DRAIN_S
        while (waiting := await waiting_submissions(self._bus)) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)  # another process may take them, asked over the bus
        return waiting


def _would_lose(number: int | None) -> Refused:
    which = "it is not known how many submissions wait" if number is None else f"{number} submissions wait"
    message = (
        f"{which} in the stream RANKD_SUBMISSIONS, and no intake has taken them: they are in no record, so they can't"
        " be rebuilt. Wait until the brokers answer and the intake has taken them, or give them up (--lose-enqueued)"
    )
    return Refused("submissions_wait", message, "lose_enqueued", status=409)
