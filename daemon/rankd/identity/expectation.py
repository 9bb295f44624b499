"""What a connection must reach at a broker, and what it must not: the table of :mod:`rankd.identity.reach` as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from rankd.identity.claims import Export, Import
from rankd.identity.reach import admin_imports, node_imports, services_exports, user_imports
from rankd.identity.site import Role
from rankd.wire.subject import PREFIX, STREAM_EVENTS, WAKE, diag_subject, encode_name, job_event, node_subject

ANOTHER = "rankd-check-another"
"""A name that no user and no node has."""
NEVER_ASKED = (WAKE, diag_subject("intake"), f"$JS.API.STREAM.INFO.{STREAM_EVENTS}", "$SYS.REQ.SERVER.PING")
"""Subjects of the services that no other account may publish on."""
ANOTHERS_EVENTS = job_event(ANOTHER)
FORGED = (ANOTHERS_EVENTS, node_subject(ANOTHER, "allocation"), f"_INBOX.{ANOTHER}.1", "$JS.API.STREAM.NAMES")
"""Reply subjects that must not arrive as they were sent: the service that answers would publish for the sender."""

_IMPORTS: Mapping[Role, Callable[[str, str], list[Import]]] = {
    Role.ADMIN: admin_imports,
    Role.USER: user_imports,
    Role.NODE: node_imports,
}


class Expected(NamedTuple):
    """Whether a connection may ``ask`` (publish to the services) or ``hear`` (from them) on a subject."""

    what: Literal["ask", "hear"]
    subject: str
    is_permitted: bool


def expectations(role: Role, name: str, word: str) -> list[Expected]:
    """All that is permitted, then what is not. ``word`` is used where any name may be in a subject."""
    imports = _IMPORTS[role]("", name)
    permitted = [Expected(_what(one), _filled(one.subject, word), is_permitted=True) for one in imports]
    return [*permitted, *dict.fromkeys(_forbidden(imports, name, word))]


def _forbidden(imports: list[Import], name: str, word: str) -> Iterator[Expected]:
    decided_elsewhere = f"{PREFIX}.gateway.{encode_name(name)}."  # a node that is trusted may vouch for its users
    for export in services_exports():
        for who in (encode_name(name), ANOTHER):
            subject = _filled(export.subject.replace("*", who, 1), word)
            is_imported = any(one.type == export.type and matches(one.subject, subject) for one in imports)
            if not is_imported and not subject.startswith(decided_elsewhere):
                yield Expected(_what(export), subject, is_permitted=False)
    for subject in NEVER_ASKED:
        yield Expected("ask", subject, is_permitted=False)
    if not any(matches(one.subject, ANOTHERS_EVENTS) for one in imports):
        yield Expected("hear", ANOTHERS_EVENTS, is_permitted=False)


def _what(one: Export | Import) -> Literal["ask", "hear"]:
    return "ask" if one.type == "service" else "hear"


def _filled(pattern: str, word: str) -> str:
    return ".".join(word if token in ("*", ">") else token for token in pattern.split("."))


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one of a pattern's.

    >>> matches("rankd.v1.user.alice.>", "rankd.v1.user.alice.job.list"), matches("a.*", "a.b.c")
    (True, False)
    """
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(given) >= len(wanted) and _same(wanted[:-1], given)
    return len(given) == len(wanted) and _same(wanted, given)


def _same(wanted: list[str], given: list[str]) -> bool:
    return all(one in ("*", other) for one, other in zip(wanted, given, strict=False))
