"""What jobs want to notify of: their field ``notify``, in a table of its own, since targets may hold secrets."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rankd.core.model.job import AcceptedJob, JobRequest
from rankd.core.model.notification import wanted_of
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection

_encode = msgspec.json.Encoder().encode


def without_notify(request: JobRequest) -> JobRequest:
    """The request as the table ``jobs`` stores it, and as nodes get it."""
    return request if request.notify is None else msgspec.structs.replace(request, notify=None)


def insert_notify(connection: Connection, new: Sequence[tuple[int, AcceptedJob]]) -> None:
    """Store what those of these new jobs want that want something."""
    rows = [
        (id_, int(wanted_of(notify)), _encode(notify).decode())
        for id_, job in new
        if (notify := job.request.notify) is not None
    ]
    if rows:
        bulk_insert(connection, "job_notifications", ("job_id", "wanted", "notify"), rows)
