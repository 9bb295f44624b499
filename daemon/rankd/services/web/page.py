"""The parts that all pages share: where they are served, the records, the settings, who looks, and the templates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from rankd.bus.outage import Spell
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.core.metric.figure import Figure
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.metric.scrape import Shared
from rankd.services.web.admitted import Admitted
from rankd.services.web.asking import Asking
from rankd.services.web.live import Live
from rankd.services.web.log_feed import LogFeed
from rankd.services.web.password import Passwords
from rankd.services.web.rank_memory import RankMemory
from rankd.services.web.records import Records
from rankd.services.web.session import COOKIE, Session, change_token, read
from rankd.services.web.signed_out import SignedOut
from rankd.services.web.template import Template
from rankd.services.web.visitor import Visitor, check_change, visitor
from rankd.store.look.web.look import NOBODY, Look
from rankd.store.look.web.site import SETTINGS, PageSettings
from rankd.wire.diag import Diag, DiagAsked

log = logging.getLogger("rankd.web")

T = TypeVar("T")

DIAG_S = 5.0
DIAG_WITHIN_S = 3.0
"""The longest time that a view waits for it. The views of all tabs are made one after the other."""
MOST_PARAMETERS = 40
LONGEST_PARAMETER = 512
MOST_FIELDS = 2_000
"""Fields of a form. What if has one for each weight, class and QoS, and for many queues."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where the page is served, under which names (``hosts``), and whom the link signs in (``owner``).

    ``key``: of sessions. ``state``: the directory of the link.
    """

    base: str
    hosts: frozenset[str]
    key: bytes
    state: Path
    owner: str
    is_read_only: bool
    is_encrypted: bool
    is_local: bool = False
    """Whether it has only names of this machine."""
    is_private: bool = False
    """Whether what browsers send can't be read on the way: it is encrypted, or stays on this machine."""


class NotSignedIn(Exception):
    """Nobody is signed in, and the page is not for everybody."""


class Page:
    """What a view needs to be made."""

    def __init__(
        self, site: Site, records: Records, live: Live, asking: Asking, clock: Clock,
        signed_out: SignedOut | None = None,
    ) -> None:  # fmt: skip
        self.site = site
        self.records = records
        self.live = live
        self.asking = asking
        self.admitted = Admitted(asking, clock)
        self.clock = clock
        self.template = Template(clock)
        self.logs = LogFeed(asking, self.template)
        self.ranks = RankMemory()
        self.passwords = Passwords()
        self.settings = PageSettings()
        self.scrape: Shared[list[Figure]] | None = None
        """The figures for ``/metrics``."""
        self._configuration: int | None = None
        self._spell = Spell(log)
        self._diag: tuple[float, Diag | RankdError] | None = None
        self.signed_out = signed_out or SignedOut(None)

    async def read_settings(self) -> None:
        """Use the configuration in force. Until it can be read, the page shows each visitor only the own jobs."""
        number = None if self.live.newest is None else self.live.newest.configuration
        if number is not None and number == self._configuration:
            return
        try:
            found = await self.records.look(SETTINGS, NOBODY, {})
        except RankdError as error:
            self._spell.note(f"the configuration can't be read: {error.message}", "it still can't be read")
            return
        self._spell.over("the configuration can be read again")
        self.settings = found
        self._configuration = number

    def who(self, request: Request) -> Visitor:
        """Who looks.

        Raises:
            NotSignedIn: nobody whom we know.
            Refused: ``bad_user``.
        """
        address = "" if request.client is None else request.client.host
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        found = visitor(
            address, headers, self._session(request), self.settings.web, is_read_only=self.site.is_read_only
        )
        if found is None:
            raise NotSignedIn
        return found

    def _session(self, request: Request) -> Session | None:
        cookie = request.cookies.get(COOKIE)
        session = None if cookie is None else read(cookie, self.site.key, self.clock())
        return None if session is None or self.signed_out.has(session) else session

    async def check_admitted(self, request: Request) -> None:
        """Check that rankd still lets this visitor look.

        Raises:
            NotSignedIn: nobody whom we know.
            Refused: ``revoked``, ``unknown_gateway``, ``bad_user``.
        """
        if user := self.who(request).user:
            await self.admitted.check(user)

    async def may_go_on(self, request: Request) -> bool:
        """Whether an open stream still may show something: the session is not over, nor the access revoked."""
        try:
            await self.check_admitted(request)
        except (NotSignedIn, RankdError):
            return False
        return True

    async def end(self, request: Request) -> None:
        """End the session of this request, if it has one: its cookie counts no more."""
        if (session := self._session(request)) is not None:
            self.signed_out.add(session, self.clock())
            await self.signed_out.write()

    def asker(self, request: Request) -> Submitter:
        """As whom the records are asked."""
        return self.who(request).asker(self.settings.privacy)

    def token(self, who: Visitor) -> str:
        """What this visitor's changes have to repeat."""
        return change_token(who.user, who.nonce, self.site.key)

    async def changer(self, request: Request) -> tuple[Visitor, dict[str, str]]:
        """Who wants to change something, and the fields of the form.

        Raises:
            NotSignedIn: nobody whom we know.
            Refused: the change does not come from a page of ours, or nothing can be changed here.
        """
        who = self.who(request)
        fields = fields_of(await request.body())
        check_change(who, request.headers, fields.pop("token", ""), self.site.key, self.site.hosts)
        return who, fields

    async def diag(self, user: str) -> Diag:
        """What the services say of themselves, at most :data:`DIAG_S` old. Every user may know it.

        Raises:
            Refused: rankd does not let this user ask.
            Unavailable: the services do not answer, or did not answer less than :data:`DIAG_S` ago.
        """
        if self._diag is None or self.clock() - self._diag[0] > DIAG_S:
            found: Diag | RankdError
            try:
                found = await self.asking.ask(user, "diag.show", DiagAsked(), Diag, DIAG_WITHIN_S)
            except Unavailable as error:
                found = error
            self._diag = (self.clock(), found)
        if isinstance(self._diag[1], RankdError):
            raise self._diag[1]
        return self._diag[1]

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """Ask the records."""
        return await self.records.look(look, asker, given)


def fields_of(body: bytes) -> dict[str, str]:
    """The fields of a form, as a browser sends it.

    Raises:
        Refused: ``bad_request``.
    """
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:
        raise Refused("bad_request", "this form can't be read; load the page again") from None


def parameters(request: Request) -> dict[str, str]:
    """The parameters of the URL that are not empty.

    Raises:
        Refused: ``bad_request``: they are too many or too long.
    """
    found = request.query_params.multi_items()
    if len(found) > MOST_PARAMETERS or any(len(value) > LONGEST_PARAMETER for _, value in found):
        raise Refused("bad_request", "the address of this page has too many or too long parameters")
    return {name: value.strip() for name, value in found if value.strip()}


def number(given: dict[str, str], name: str, default: int = 0) -> int:
    """A whole number from 0 among the parameters.

    Raises:
        Refused: ``bad_request``.
    """
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise Refused("bad_request", f"{name} in the address of this page has to be a whole number", name)
    return int(text)
