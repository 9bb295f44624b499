"""Requests that only look: the same queries as the command line's, answered over the bus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.admit import Submitter
from rankd.store import explain, look
from rankd.store.accounting import accounting
from rankd.store.database import Database
from rankd.store.filter_check import check_filter
from rankd.store.site import site_of
from rankd.wire.codec import decode_strict
from rankd.wire.message import AccountingFilter, JobFilter, JobShow

Query = Callable[[look.Reader], Any]


def looking_verbs(database: Database) -> list[Verb]:
    """``job.show|why|list|history|acct``, ``priority.list``, ``node.list``, ``queue.list``, ``share.list``."""

    async def show(_asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobShow)
        record: look.Row = await _read(database, lambda reader: look.job(reader, wanted.id))
        return record

    async def why(_asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobShow)
        answer: look.Row = await _read(database, lambda reader: explain.why(reader, wanted.id))
        return answer

    async def history(_asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobShow)
        return {"events": await _read(database, lambda reader: look.history(reader, wanted.id))}

    async def jobs(asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobFilter)
        return {"jobs": await _read(database, _checked(asker, wanted, lambda reader: look.jobs(reader, wanted)))}

    async def acct(asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, AccountingFilter)
        return {"jobs": await _read(database, _checked(asker, wanted, lambda reader: accounting(reader, wanted)))}

    async def priorities(asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobFilter)
        both = _checked(asker, wanted, lambda r: (look.priorities(r, wanted), look.weights(r)))
        rows, weights = await _read(database, both)
        return {"jobs": rows, "weights": weights}

    async def site(_asker: Submitter, _payload: bytes) -> Reply:
        return site_of(database.path)

    return [
        Verb("site.show", site),
        Verb("job.show", show),
        Verb("job.why", why),
        Verb("job.history", history),
        Verb("job.list", jobs),
        Verb("job.acct", acct),
        Verb("priority.list", priorities),
        Verb("node.list", _table(database, "nodes", look.nodes)),
        Verb("queue.list", _table(database, "queues", look.queues)),
        Verb("share.list", _table(database, "shares", look.shares)),
    ]


def _checked(asker: Submitter, wanted: JobFilter, query: Query) -> Query:
    """The query, once it is clear that everything exists that the filter names."""

    def both(reader: look.Reader) -> Any:  # noqa: ANN401 - rows as the views give them
        check_filter(reader, wanted, asker.user)
        return query(reader)

    return both


def _table(database: Database, name: str, query: Query) -> UserHandler:
    async def handle(_asker: Submitter, _payload: bytes) -> Reply:
        return {name: await _read(database, query)}

    return handle


async def _read(database: Database, query: Query) -> Any:  # noqa: ANN401 - rows as the views give them
    return await database.read(lambda connection: query(connection.connection))
