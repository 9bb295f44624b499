"""Which targets the administrator allows: patterns in which ``*`` stands for any characters of one part of the URL.

A pattern is compared part by part: the scheme, the host, the port, the path. So ``*`` in a host can't reach into the
path, and ``https://*.example.org/*`` does not allow ``https://evil.org/x.example.org/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankd.core.notification.target import MAIL, WEB, WEB_PORT, Target

STAR = "*"

_WEB = re.compile(r"https://(?P<host>[^/:@]+|\[[^]/@]+\])(?::(?P<port>[0-9]+|\*))?(?P<path>/.*)")
_OTHER = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<rest>//.*)")


def is_allowed(target: Target, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits.

    >>> from rankd.core.notification.target import parse_target
    >>> is_allowed(parse_target("mailto:alice@example.org"), ["mailto:*@example.org"])
    True
    >>> is_allowed(parse_target("https://evil.org/.example.org/"), ["https://*.example.org/*"])
    False
    """
    return any(_fits(target, pattern) for pattern in patterns)


def _fits(target: Target, pattern: str) -> bool:
    if target.scheme == MAIL:
        user, at, host = pattern.removeprefix(f"{MAIL}:").rpartition("@")
        is_mail = pattern.startswith(f"{MAIL}:") and bool(at)
        return is_mail and glob(user, target.user) and glob(host.lower(), target.host)
    if target.scheme == WEB:
        web = _WEB.fullmatch(pattern)
        if web is None:
            return False
        fits_port = web["port"] == STAR or int(web["port"] or WEB_PORT) == target.port
        return fits_port and glob(web["host"].lower(), target.host) and glob(web["path"], target.rest)
    other = _OTHER.fullmatch(pattern)
    return other is not None and other["scheme"] == target.scheme and glob(other["rest"], target.rest)


def glob(pattern: str, text: str) -> bool:
    """Whether the pattern fits the whole text. Takes time in proportion to the text, whatever the pattern.

    >>> glob("a*c*", "abcd"), glob("a*", "ba"), glob("ab*b", "ab"), glob("abc", "abc")
    (True, False, False, True)
    """
    first, *rest = pattern.split(STAR)
    if not rest:
        return text == first
    *middle, last = rest
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern; None if it is good.

    >>> pattern_problem("mailto:*@example.org"), pattern_problem("*")
    (None, 'name the scheme: mailto:*@example.org, https://hooks.example.org/*, slack://*')
    """
    if pattern.startswith(f"{MAIL}:"):
        return None if "@" in pattern and " " not in pattern else "write mailto:*@example.org"
    if pattern.startswith("http:"):
        return "notifications are not sent unencrypted; write https://"
    if pattern.startswith(f"{WEB}:"):
        return None if _WEB.fullmatch(pattern) else "write host and path: https://hooks.example.org/*"
    if _OTHER.fullmatch(pattern):
        return None
    return "name the scheme: mailto:*@example.org, https://hooks.example.org/*, slack://*"


def needs_mail(patterns: Iterable[str]) -> bool:
    """Whether mail is allowed, so that a server for it is needed."""
    return any(pattern.startswith(f"{MAIL}:") for pattern in patterns)


def pattern_host(pattern: str) -> str | None:
    """The host of a pattern for the web, in lower case; None for other patterns, and if a star stands in the host.

    >>> pattern_host("https://Hooks.lan:8443/*"), pattern_host("https://*.example.org/*")
    ('hooks.lan', None)
    """
    web = _WEB.fullmatch(pattern)
    return None if web is None or STAR in web["host"] else web["host"].lower()
