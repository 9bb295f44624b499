"""Requests that only look: the command line's queries, answered over the bus. Lists are sent in pages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.permission import ThingsOf, check
from rankd.core.admission.privacy import seen, seen_devices, seen_shares
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.server_url import is_postgres
from rankd.services.intake.look_turns import LookTurns
from rankd.services.intake.rests import Rests
from rankd.services.intake.shown_estimate import ShownEstimates
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.postgres_site import site_of_server
from rankd.store.engine.reading import Reader, Row
from rankd.store.engine.site import site_of
from rankd.store.engine.time_limit import time_limit
from rankd.store.look import page
from rankd.store.look.as_asker import check_sees, job_script_for, job_shown_to, narrowed, why_for
from rankd.store.look.filter_check import check_filter
from rankd.store.look.service_list import services as service_list
from rankd.store.look.start_range import start_range
from rankd.store.look.web.catalog import LOOKS
from rankd.wire.codec import decode_strict, encode
from rankd.wire.job_selection import JobName
from rankd.wire.message import (
    AccountingFilter,
    EventsRequest,
    HistoryRequest,
    JobFilter,
    JobList,
    JobShow,
    PriorityList,
    TableFilter,
)
from rankd.wire.schema import document, of_verb
from rankd.wire.schema_record import SchemaRequest
from rankd.wire.subject import WEB
from rankd.wire.table_record import Nothing
from rankd.wire.web import PageLook, PageLooked

Jobs = TypeVar("Jobs", bound=JobFilter)

PAYLOAD_SHARE = 0.9
"""How much of the broker's largest payload a page may fill."""
IN_BASE64 = 4 / 3
LONGEST_LOOK_S = 10.0
"""A look of the page that takes longer is interrupted: the page does not wait for it any more."""


class LookVerbs:
    """The looking verbs. Lists and requests about one job have separate queues.

    ``max_payload`` returns the broker's present limit in bytes. ``has_accounts``: whether the broker knows who asks,
    so that the page's requests come as its gateway's.
    """

    def __init__(
        self, database: Database, rests: Rests, max_payload: Callable[[], int], estimates: ShownEstimates,
        has_accounts: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.lists = LookTurns(database, rests, slots=2, per_user=1, waiting=20)
        self.single = LookTurns(database, rests, slots=2, per_user=1, waiting=1_000)
        self._max_payload = max_payload
        self._estimates = estimates
        self._has_accounts = has_accounts
        self._path = database.path
        self._is_server = is_postgres(database.url)

    def verbs(self) -> list[Verb]:
        """``job.show|script|why|when|list|…``; ``list`` of priorities, nodes, services, queues and shares."""
        tables = [Verb(name, self._table(name, listing)) for name, listing in page.LISTINGS.items()]

        async def site(asker: Submitter, payload: bytes) -> Reply:
            decode_strict(payload, Nothing)
            return await self.single.look(asker.user, site_of_server) if self._is_server else site_of(self._path)

        async def schema(_asker: Submitter, payload: bytes) -> Reply:
            verb = decode_strict(payload, SchemaRequest).verb
            return document() if verb is None else of_verb(verb)

        async def services(asker: Submitter, payload: bytes) -> Reply:
            decode_strict(payload, Nothing)
            return await self.single.look(asker.user, lambda c: service_list(_reader(c)))

        return [
            Verb("site.show", site),
            Verb("schema.show", schema),
            Verb("service.list", services),
            Verb("page.look", self._page_look),
            Verb("job.show", self._of_job("job.show", job_shown_to)),
            Verb("job.script", self._of_job("job.script", job_script_for)),
            Verb("job.why", self._of_job("job.why", why_for)),
            Verb("job.when", self._when),
            Verb("job.history", self._history),
            Verb("job.events", self._events),
            Verb("job.list", self._jobs("job.list", JobList, page.job_page)),
            Verb("job.acct", self._jobs("job.acct", AccountingFilter, page.accounting_page)),
            Verb("priority.list", self._jobs("priority.list", PriorityList, page.priority_page)),
            *tables,
        ]

    def _of_job(self, action: str, query: Callable[[Reader, JobName, Submitter], Row]) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            wanted = decode_strict(payload, JobShow)

            def checked(connection: Connection) -> Row:
                check_sees(reader := _reader(connection), wanted.id, asker, action)
                return query(reader, wanted.id, asker)

            return await self.single.look(asker.user, checked)

        return handle

    async def _when(self, asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobShow)

        def checked(connection: Connection) -> Row:
            check_sees(reader := _reader(connection), wanted.id, asker, "job.when")
            return start_range(reader, wanted.id)

        return self._estimates.note(await self.single.look(asker.user, checked))

    def _jobs(self, action: str, kind: type[Jobs], query: Callable[[Reader, Jobs], page.Page]) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            wanted = narrowed(decode_strict(payload, kind), asker, action)

            def checked(reader: Reader) -> page.Page:
                check_filter(reader, wanted, asker.user)
                found = query(reader, wanted)
                return found._replace(rows=[seen(row, asker) for row in found.rows])

            return await self.page(asker, checked)

        return handle

    def _table(self, name: str, listing: page.Listing) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            wanted, shown = decode_strict(payload, TableFilter), listing
            if name == "share.list":
                shown = listing._replace(read=lambda reader: seen_shares(listing.read(reader), asker))
            if name == "device.list":
                shown = listing._replace(read=lambda reader: seen_devices(listing.read(reader), asker))
            return await self.page(asker, lambda reader: shown.page(reader, wanted))

        return handle

    async def _history(self, asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, HistoryRequest)

        def checked(reader: Reader) -> page.Page:
            check_sees(reader, wanted.id, asker, "job.history")
            return page.event_page(reader, wanted)

        return await self.page(asker, checked, self.single)

    async def _events(self, asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, EventsRequest)
        wanted = msgspec.structs.replace(wanted, users=own_users(asker, wanted.users, "job.events", "watching jobs"))
        return await self.page(asker, lambda reader: page.follow_page(reader, wanted), self.single)

    async def _page_look(self, asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, PageLook)
        look = LOOKS.get(wanted.look)
        if look is None:
            raise Refused("unknown_look", f"the page has no look '{wanted.look}' in this version of rankd", "look")
        if look.is_for_page and asker.via != WEB and self._has_accounts():
            check(asker, "page.look for the page")
        user = Submitter("", privileged=False, sees=asker.sees) if wanted.nobody else asker
        room = int(self._max_payload() * PAYLOAD_SHARE / IN_BASE64)

        def checked(connection: Connection) -> PageLooked:
            reader = _reader(connection)
            with time_limit(reader, LONGEST_LOOK_S):
                found = look.read(reader, user, wanted.given)
            data = zlib.compress(encode(found), 1)
            if len(data) > room:
                message = f"the view '{look.name}' has {len(data):,} bytes, and the broker passes on {room:,}"
                raise Refused("too_large", f"{message}; run `rankd web` with --db", status=413)
            return PageLooked(data=data)

        return await (self.lists if look.is_list else self.single).look(asker.user, checked)

    async def page(self, asker: Submitter, query: Callable[[Reader], page.Page], turns: LookTurns | None = None) -> Row:
        """A page as large as a message may be. ``turns`` None means the queue of the lists."""
        room = int(self._max_payload() * PAYLOAD_SHARE)
        return await (turns or self.lists).look(asker.user, lambda c: page.answer(query(_reader(c)), room))


def own_users(asker: Submitter, users: Sequence[str] | None, action: str, doing: str) -> list[str] | None:
    """The users whose records a request may see, for records that users see their own of; None: of all users.

    Raises:
        Refused: ``admins_only``: an ordinary user names another one. ``doing`` begins the message.
    """
    for user in users or ():
        check(asker, action, ThingsOf(user, doing))
    if asker.privileged:
        return None if users is None else list(users)
    return [asker.user]


def _reader(connection: Any) -> Reader:  # noqa: ANN401 - SQLAlchemy's types leave the driver's connection open
    reader: Reader = connection.connection
    return reader
