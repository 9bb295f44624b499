"""Who looks at the page, and what is refused before anything else is looked at. Pure, but for the site's key.

A request is its user's if it comes from a listed proxy that names the user, or has the cookie of a session. With
``--read-only``, everybody else may look too, as a user without jobs does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.service_setting import WebSettings
from rankd.core.model.setting import Privacy
from rankd.services.web.session import Session, is_change_token
from rankd.wire.subject import WEB

LOOPBACK = ("127.0.0.0/8", "::1")
LONGEST_USER = 256
NOBODY = ""
"""The name of a visitor who is not signed in. No job has it."""


class Visitor(NamedTuple):
    """Who looks. ``nonce``: of the session; empty at a proxy. ``may_change``: signed in, and not read-only."""

    user: str
    nonce: str
    may_change: bool

    def asker(self, sees: Privacy) -> Submitter:
        """As the records are asked: always as an ordinary user. ``sees``: ``[privacy] jobs``."""
        return Submitter(self.user, privileged=False, via=WEB, sees=sees)


def visitor(
    address: str, headers: Sequence[tuple[str, str]], session: Session | None, web: WebSettings, *, is_read_only: bool
) -> Visitor | None:
    """Who sends this request; None if nobody is signed in. ``headers``: names in small letters.

    Raises:
        Refused: ``bad_user``: the proxy names several users, or one whose name can't be one.
    """
    if is_listed(address, web.proxies):
        named = [value for name, value in headers if name == web.user_header.lower()]
        if named:
            return Visitor(_named(named, web.user_header), "", may_change=not is_read_only)
    if session is not None:
        return Visitor(session.user, session.nonce, may_change=not is_read_only)
    return Visitor(NOBODY, "", may_change=False) if is_read_only else None


def is_listed(address: str, networks: Collection[str]) -> bool:
    """Whether an address is one of these, or in one of these networks."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in ip_network(network) for network in networks)


def may_read_metrics(address: str, web: WebSettings, visitor: Visitor | None, *, is_local: bool) -> bool:
    """Whether a request may read the metrics: of who is signed in, of a listed address, or of this machine.

    ``is_local``: the page has only names of this machine. Else a proxy may be here, which passes on what others ask.
    """
    if visitor is not None and visitor.user != NOBODY:
        return True
    if is_listed(address, web.metrics):
        return True
    return is_local and is_listed(address, LOOPBACK) and not is_listed(address, web.proxies)


def _named(values: Sequence[str], header: str) -> str:
    user = values[0].strip()
    if len(values) > 1 or not user or len(user) > LONGEST_USER or not user.isprintable():
        message = f"the proxy has to name one user in {header}, with 1 to {LONGEST_USER} printable characters"
        raise Refused("bad_user", message, status=403)
    return user


def check_host(host: str | None, allowed: Collection[str]) -> None:
    """Check the name under which the page was asked for. A name that another site points here is refused.

    Raises:
        Refused: ``bad_host``.
    """
    if host is None or host.lower() not in allowed:
        known = ", ".join(sorted(allowed))
        message = f"the page does not answer under the name '{(host or '')[:80]}'; it answers under {known}"
        raise Refused("bad_host", f"{message}. `rankd web --host NAME` adds one", status=421)


def check_origin(headers: Mapping[str, str], allowed: Collection[str]) -> None:
    """Check that a form comes from a page of ours.

    Raises:
        Refused: ``other_origin``.
    """
    origin = headers.get("origin")
    if origin is None or urlsplit(origin).netloc.lower() not in allowed:
        raise Refused("other_origin", "this change does not come from this page; open the page itself", status=403)


def check_change(
    visitor: Visitor, headers: Mapping[str, str], token: str, key: bytes, allowed: Collection[str]
) -> None:
    """Check that a change comes from a page of ours, by a visitor who may change something.

    Raises:
        Refused: ``read_only``, ``other_origin``, ``bad_token``.
    """
    if not visitor.may_change:
        raise Refused("read_only", "this page only shows: changes are turned off here (--read-only)", status=403)
    check_origin(headers, allowed)
    if not is_change_token(token, visitor.user, visitor.nonce, key):
        raise Refused("bad_token", "this form is too old; load the page again", status=403)
