"""Requests that only look: the command line's queries, answered over the bus. Lists are sent in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.admit import Submitter
from rankd.core.errors import admins_only
from rankd.services.intake.look_turns import LookTurns
from rankd.store.engine.database import Database
from rankd.store.engine.reading import Reader, Row
from rankd.store.engine.site import site_of
from rankd.store.look import page
from rankd.store.look.filter_check import check_filter
from rankd.store.look.job_detail import job_detail
from rankd.store.look.service_list import services as service_list
from rankd.store.look.why import why
from rankd.wire.codec import decode_strict
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

Wanted = TypeVar("Wanted", bound=msgspec.Struct)

PAYLOAD_SHARE = 0.9
"""How much of the broker's largest payload a page may fill."""


class LookVerbs:
    """The looking verbs. Lists and requests about one job have separate queues.

    ``max_payload`` returns the broker's present limit in bytes.
    """

    def __init__(self, database: Database, max_payload: Callable[[], int]) -> None:
        self.lists = LookTurns(database, slots=2, per_user=1, waiting=20)
        self.single = LookTurns(database, slots=2, per_user=1, waiting=1_000)
        self._max_payload = max_payload
        self._path = database.path

    def verbs(self) -> list[Verb]:
        """``job.show|why|list|history|events|acct``; ``list`` of priorities, nodes, services, queues and shares."""
        tables = [
            Verb(name, self._paged(TableFilter, listing.page, self.lists)) for name, listing in page.LISTINGS.items()
        ]

        async def site(_asker: Submitter, _payload: bytes) -> Reply:
            return site_of(self._path)

        async def services(asker: Submitter, _payload: bytes) -> Reply:
            return await self.single.look(asker.user, lambda c: service_list(_reader(c)))

        return [
            Verb("site.show", site),
            Verb("service.list", services),
            Verb("job.show", self._of_job(_shown)),
            Verb("job.why", self._of_job(lambda reader, job, _asker: why(reader, job))),
            Verb("job.history", self._paged(HistoryRequest, page.event_page, self.single)),
            Verb("job.events", self._events),
            Verb("job.list", self._paged(JobList, page.job_page, self.lists)),
            Verb("job.acct", self._paged(AccountingFilter, page.accounting_page, self.lists)),
            Verb("priority.list", self._paged(PriorityList, page.priority_page, self.lists)),
            *tables,
        ]

    def _of_job(self, query: Callable[[Reader, int, Submitter], Row]) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            wanted = decode_strict(payload, JobShow)
            return await self.single.look(asker.user, lambda c: query(_reader(c), wanted.id, asker))

        return handle

    def _paged(self, kind: type[Wanted], query: Callable[[Reader, Wanted], page.Page], turns: LookTurns) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            wanted = decode_strict(payload, kind)

            def checked(reader: Reader) -> page.Page:
                if isinstance(wanted, JobFilter):
                    check_filter(reader, wanted, asker.user)
                return query(reader, wanted)

            return await self.page(asker, checked, turns)

        return handle

    async def _events(self, asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, EventsRequest)
        wanted = msgspec.structs.replace(wanted, users=visible_users(asker, wanted.users, "watching jobs"))
        return await self.page(asker, lambda reader: page.follow_page(reader, wanted), self.single)

    async def page(self, asker: Submitter, query: Callable[[Reader], page.Page], turns: LookTurns | None = None) -> Row:
        """A page as large as a message may be. ``turns`` None means the queue of the lists."""
        room = int(self._max_payload() * PAYLOAD_SHARE)
        return await (turns or self.lists).look(asker.user, lambda c: page.answer(query(_reader(c)), room))


def visible_users(asker: Submitter, users: Sequence[str] | None, looking: str) -> list[str] | None:
    """The users whose records a request may see, for records that users see their own of; None: of all users.

    Raises:
        Refused: ``admins_only``: an ordinary user names another one. ``looking`` begins the message.
    """
    if asker.privileged:
        return None if users is None else list(users)
    others = [user for user in users or () if user != asker.user]
    if others:
        raise admins_only(f"{looking} of '{others[0]}'", asker.user, "users")
    return [asker.user]


def _shown(reader: Reader, job: int, asker: Submitter) -> Row:
    return job_detail(reader, job, None if asker.privileged else asker.user)


def _reader(connection: Any) -> Reader:  # noqa: ANN401 - SQLAlchemy's types leave the driver's connection open
    reader: Reader = connection.connection
    return reader
