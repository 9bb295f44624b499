"""``job.retry``: submits an ended job, array or task again, as a new job with the rights of its owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rankd.bus.endpoint import IdempotentVerb, Reply
from rankd.core.admission.submitter import Submitter
from rankd.core.change.retry import Again, Wish, again
from rankd.core.model.array import parse_name
from rankd.services.intake.look_turns import LookTurns
from rankd.store.engine.connection import Connection
from rankd.store.record.old_job import read_old_job
from rankd.wire.codec import decode_strict
from rankd.wire.message import JobRetry

Take = Callable[[Again, str, Submitter], Awaitable[Reply]]
"""Admits and stores the new job of an owner, for an asker."""


def retry_verb(turns: LookTurns, take: Take) -> IdempotentVerb:
    """The endpoint. Reading a large array takes long, so it waits for its turn like a request that looks."""

    async def handle(asker: Submitter, payload: bytes, message_id: str | None) -> Reply:
        wanted = decode_strict(payload, JobRetry)

        def decided(connection: Connection) -> tuple[Again, str]:
            """The new request and its owner. Also reads the name here, on a thread: it may be a long list."""
            wish = Wish(parse_name(wanted.id), wanted.failed, wanted.held, wanted.key or message_id)
            old, wish = read_old_job(connection, wish, asker)
            return again(old, wish), old.user

        return await take(*await turns.look(asker.user, decided), asker)

    return IdempotentVerb("job.retry", handle)
