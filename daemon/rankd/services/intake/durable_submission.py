"""Durable submission: messages that users published on the enqueue subject, even while no intake ran.

A message is acknowledged once its jobs, or the reasons for refusing them, are in the database. It may be delivered
twice. Then its id as the jobs' key prevents duplicate jobs, and each refused job is kept once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import unquote

from nats.aio.msg import Msg

from rankd.bus.connection import MESSAGE_ID, Bus
from rankd.bus.consumer import PullConsumer
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError, Refused, RoleLost, Unavailable
from rankd.services.intake.submission import Submission, rejected_of
from rankd.services.runtime.clock import Clock
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.dead_letter import Undelivered, keep, key_of
from rankd.wire.message import Rejected
from rankd.wire.subject import ENQUEUE_PATTERN, STREAM_SUBMISSIONS, enqueuer_of

log = logging.getLogger("rankd.intake")

BATCH_BYTES = 4 * 2**20
"""Bytes of messages per batch, so that a batch takes less time than the broker waits before it delivers it again."""

Submit = Callable[[Submitter, bytes, str | None], Awaitable[tuple[Submission, list[int], RankdError | None]]]
"""Reads, admits and stores; returns the submission, the ids, and the error if some jobs could not be stored."""


class EnqueuedSubmissions:
    """Consumes the messages until cancelled; ``durable`` is the name of the consumer."""

    def __init__(self, bus: Bus, durable: str, group: GroupCommit, submit: Submit, clock: Clock) -> None:
        self._consumer = PullConsumer(bus, STREAM_SUBMISSIONS, durable, [ENQUEUE_PATTERN], max_bytes=BATCH_BYTES)
        self._group = group
        self._submit = submit
        self._clock = clock

    async def run(self) -> None:
        """Store the messages as they arrive; messages of a batch share transactions."""
        async with aclosing(self._consumer.batches()) as batches:
            async for messages in batches:
                async with asyncio.TaskGroup() as group:
                    for message in messages:
                        group.create_task(self._take(message))

    async def _take(self, message: Msg) -> None:
        try:
            await self._store(message)
        except Unavailable as error:  # not acknowledged, so it is delivered again
            log.warning("an enqueued submission waits: %s", error.message)
            return
        await message.ack()

    async def _store(self, message: Msg) -> None:
        letters = await self._letters_of(message)
        if letters:
            log.warning("an enqueued submission of %s: %.500s", letters[0].user, letters[0].message)
            await self._group.do(lambda connection: keep(connection, letters))

    async def _letters_of(self, message: Msg) -> list[Undelivered]:
        """Submit; returns the jobs that could not be accepted, as letters."""
        envelope = _Envelope.of(message, self._clock())
        try:
            asker = Submitter(enqueuer_of(message.subject), privileged=False)
            submission, ids, error = await self._submit(asker, message.data, envelope.key)
        except (Unavailable, RoleLost):
            raise
        except RankdError as refusal:
            return [envelope.letter(refusal)]
        except (ValueError, RecursionError) as unreadable:
            return [envelope.letter(Refused("bad_request", f"the message can't be read: {unreadable}"))]
        except Exception:
            log.exception("an enqueued submission failed")
            return [envelope.letter(RankdError("internal_error", "rankd failed on this submission; its log says how"))]
        if isinstance(error, Unavailable):
            raise error
        rejected = rejected_of(submission, ids, error)
        if submission.atomic and rejected:
            return [envelope.letter(Refused(rejected[0].code, rejected[0].message, rejected[0].field))]
        return [envelope.letter_of(no, bytes(submission.raw[no.index])) for no in rejected]


class _Envelope(NamedTuple):
    """Where a message comes from, and when it was read. ``source`` is unique to the message."""

    user: str
    source: str
    message_id: str | None
    payload: bytes
    at: float

    @classmethod
    def of(cls, message: Msg, now: float) -> _Envelope:
        token = message.subject.rsplit(".", 1)[1]
        metadata = message.metadata
        source = f"{metadata.sequence.stream}-{metadata.timestamp.timestamp():.6f}"
        return cls(unquote(token, errors="replace"), source, (message.headers or {}).get(MESSAGE_ID), message.data, now)

    @property
    def key(self) -> str:
        return key_of(self.message_id, self.source)

    def letter(self, error: RankdError) -> Undelivered:
        """A letter with the whole message."""
        return self._letter(self.source, self.payload, error.code, error.message, error.field)

    def letter_of(self, rejected: Rejected, job: bytes) -> Undelivered:
        """A letter with one job of the message."""
        return self._letter(f"{self.source}/{rejected.index}", job, rejected.code, rejected.message, rejected.field)

    def _letter(self, source: str, payload: bytes, code: str, message: str, field: str | None) -> Undelivered:
        return Undelivered(
            source=source,
            user=self.user,
            at=self.at,
            message_id=self.message_id,
            payload=payload,
            code=code,
            message=message,
            field=field,
        )
