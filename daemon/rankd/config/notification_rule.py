"""The rules for ``[notifications]``, and its mail server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rankd.core.errors import Problem
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.address import is_known_private
from rankd.core.notification.allow_list import needs_mail, pattern_host, pattern_problem
from rankd.core.notification.target import is_address, is_host

_SERVER = re.compile(
    r"(?P<scheme>smtp|smtp\+starttls|smtps)://(?P<host>[^/@:\[\]]+|\[[^\]]+\])(?::(?P<port>[0-9]{1,5}))?/?"
)
_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


class MailServer(NamedTuple):
    """A mail server. ``is_tls``: TLS from the first byte on. ``needs_tls``: no mail without STARTTLS."""

    host: str
    port: int
    is_tls: bool = False
    needs_tls: bool = False


def mail_server(text: str) -> MailServer:
    """The server of ``notifications.smtp``.

    >>> mail_server("smtp+starttls://mail.example.org")
    MailServer(host='mail.example.org', port=587, is_tls=False, needs_tls=True)

    Raises:
        ValueError: it is not one.
    """
    found = _SERVER.fullmatch(text)
    port = 0 if found is None else int(found["port"] or _PORTS[found["scheme"]])
    if found is None or not is_host(found["host"].lower()) or not 1 <= port <= 65_535:
        raise ValueError("write smtp://host:25, smtp+starttls://host:587 or smtps://host:465")
    scheme = found["scheme"]
    return MailServer(found["host"].strip("[]"), port, scheme == "smtps", scheme == "smtp+starttls")


def sender(settings: NotificationSettings) -> str:
    """The address that mails come from."""
    if settings.mail_from is not None:
        return settings.mail_from
    host = settings.mail_domain or mail_server(settings.smtp or "smtp://localhost").host
    return f"rankd@{host}"


def check_notifications(settings: NotificationSettings, file: str) -> list[Problem]:
    """All problems of the settings."""
    return [Problem(file=file, path=f"notifications.{path}", message=why) for path, why in _problems(settings)]


def _problems(settings: NotificationSettings) -> Iterator[tuple[str, str]]:
    for place, pattern in enumerate(settings.allow):
        if why := pattern_problem(pattern):
            yield f"allow[{place}]", f"'{pattern}': {why}"
    for place, host in enumerate(settings.private_hosts):
        if not is_host(host):
            yield f"private_hosts[{place}]", f"'{host}' is not a host's name; write it in lower case, without a pattern"
    if settings.mail_domain is not None and not is_host(settings.mail_domain):
        yield "mail_domain", f"'{settings.mail_domain}' is not a domain; write it in lower case"
    if settings.mail_from is not None and not is_address(settings.mail_from):
        yield "mail_from", f"'{settings.mail_from}' is not a mail address; write rankd@example.org"
    yield from _of_mail(settings)


def _of_mail(settings: NotificationSettings) -> Iterator[tuple[str, str]]:
    if settings.smtp is None:
        if needs_mail(settings.allow):
            yield "smtp", "mail is allowed, but no server sends it; write smtp://host:25"
        return
    try:
        server = mail_server(settings.smtp)
    except ValueError as error:
        yield "smtp", f"{error}; user and password have settings of their own"
        return
    if (settings.smtp_user is None) != (settings.smtp_password_file is None):
        yield "smtp_user", "smtp_user and smtp_password_file belong together"
    elif settings.smtp_user is not None and not (server.is_tls or server.needs_tls):
        yield "smtp", "the password would travel unencrypted; write smtp+starttls:// or smtps://"


def unreachable_targets(settings: NotificationSettings, file: str) -> Iterator[Problem]:
    """Warnings about allowed web addresses on this machine or in a private network that ``private_hosts`` lacks.

    Names are not looked up: only ``localhost`` and addresses written as numbers are known to be private.
    """
    for place, pattern in enumerate(settings.allow):
        host = pattern_host(pattern)
        if host is None or host in settings.private_hosts:
            continue
        if is_known_private(host):
            message = (
                f"'{pattern}' allows a host of this machine or of a private network, but private_hosts lacks '{host}',"
                " so nothing is sent there; add it"
            )
            yield Problem(file=file, path=f"notifications.allow[{place}]", message=message)
