"""Targets of notifications: URLs that users name. Their grammar is narrow, so that all programs read one alike.

``mailto:alice@example.org`` (one address, no further headers), ``https://hooks.example.org/path?query`` (without user
and password, without a fragment), and ``scheme://…`` for everything else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rankd.core.near_name import cut

MOST_CHARACTERS = 1_024
MAIL, WEB = "mailto", "https"
WEB_PORT = 443

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}\.)*{_LABEL}"
LONGEST_HOST = 253
_LOCAL = r"[A-Za-z0-9_](?:[A-Za-z0-9_+=~'-]|\.(?!\.)){0,63}"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,30}):")
_MAILBOX = re.compile(_LOCAL)
_ADDRESS = re.compile(rf"(?P<local>{_LOCAL})@(?P<host>{_HOST})")
_WEB = re.compile(rf"//(?P<host>{_HOST}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::(?P<port>[0-9]{{1,5}}))?(?P<path>/[!-~]*)")
_OTHER = re.compile(r"//[!-~]+")
_NOT_IN_PATHS = re.compile(r"[\\\"<>#^`{|}]|/\.{1,2}(?:[/?]|$)|//|%2[eEfF]|%5[cC]|%[01]|%(?![0-9A-Fa-f]{2})")


class BadTarget(ValueError):
    """A text that is not a target, and what to write."""


class Target(NamedTuple):
    """A target. ``user``: the part before @ of an address. ``host``: in lower case; empty with other schemes.

    ``rest``: the path and query of a URL on the web, or everything after ``scheme:`` with other schemes.
    """

    scheme: str
    text: str
    user: str = ""
    host: str = ""
    port: int = 0
    rest: str = ""

    @property
    def address(self) -> str:
        """Of a mailbox: the address."""
        return f"{self.user}@{self.host}"

    @property
    def lane(self) -> str:
        """What targets share that one slow receiver can hold up.

        >>> parse_target("https://Hooks.example.org/a?b=c").lane
        'https://hooks.example.org:443'
        """
        if self.scheme == MAIL:
            return MAIL
        return f"{WEB}://{self.host}:{self.port}" if self.scheme == WEB else f"{self.scheme}:"


def parse_target(text: str) -> Target:
    """The target.

    >>> parse_target("mailto:alice@example.org").address
    'alice@example.org'

    Raises:
        BadTarget: it is not one.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadTarget(f"a target has {len(text)} characters, {MOST_CHARACTERS} are allowed")
    found = _SCHEME.match(text)
    if found is None:
        raise BadTarget(f"'{cut(text)}' is not a target; write mailto:alice@example.org or https://example.org/path")
    scheme, rest = found[1], text[found.end() :]
    if scheme == MAIL:
        return _mailbox(text, rest)
    if scheme == WEB:
        return _web(text, rest)
    if scheme == "http":
        raise BadTarget(f"'{cut(text)}': a message would travel unencrypted; write https://")
    if not _OTHER.fullmatch(rest):
        raise BadTarget(f"'{cut(text)}' is not a URL; write {scheme}:// and printable ASCII characters without spaces")
    return Target(scheme, text, rest=rest)


def _mailbox(text: str, rest: str) -> Target:
    found = _ADDRESS.fullmatch(rest)
    if found is None or len(found["host"]) > LONGEST_HOST:
        raise BadTarget(f"'{cut(text)}' is not one mail address; write mailto:alice@example.org")
    return Target(MAIL, text, found["local"], found["host"].lower())


def _web(text: str, rest: str) -> Target:
    found = _WEB.fullmatch(rest)
    if found is None or len(found["host"]) > LONGEST_HOST:
        message = "write https://host/path, in ASCII, without a user, a password and a fragment (#)"
        raise BadTarget(f"'{cut(text)}' is not a URL that notifications can be sent to; {message}")
    if _NOT_IN_PATHS.search(found["path"]):
        message = "its path has '.', '..' or empty parts, or characters that have to be percent-encoded"
        raise BadTarget(f"'{cut(text)}': {message}")
    port = int(found["port"] or WEB_PORT)
    if not 1 <= port <= 65_535:
        raise BadTarget(f"'{cut(text)}': {port} is not a port; write 1 to 65535")
    return Target(WEB, text, host=found["host"].lower(), port=port, rest=found["path"])


def with_domain(text: str, domain: str | None) -> str:
    """The target; ``mailto:alice`` gets the site's domain.

    >>> with_domain("mailto:alice", "example.org"), with_domain("mailto:a@b.org", "example.org")
    ('mailto:alice@example.org', 'mailto:a@b.org')

    Raises:
        BadTarget: the site has no domain for mail.
    """
    mailbox = text.removeprefix(f"{MAIL}:")
    if mailbox == text or "@" in mailbox:
        return text
    if not _MAILBOX.fullmatch(mailbox):
        raise BadTarget(f"'{cut(text)}' is not one mail address; write mailto:alice@example.org")
    if domain is None:
        raise BadTarget(f"'{cut(text)}' has no domain, and this site has no notifications.mail_domain; name one")
    return f"{text}@{domain}"


def is_host(text: str) -> bool:
    """Whether it is a host's name or an IP address, as a target writes it in lower case."""
    return text == text.lower() and re.fullmatch(rf"{_HOST}|\[[0-9a-f:.]{{2,45}}\]", text) is not None


def is_address(text: str) -> bool:
    """Whether it is a mail address."""
    return _ADDRESS.fullmatch(text) is not None
