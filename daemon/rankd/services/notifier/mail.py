"""Sends a notification by mail, through the one mail server that the administrator names.

smtplib waits, so it runs in threads of the notifier's own, and a connection that is still open when its time is over is
shut down: its thread then ends at once.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rankd.config.notification_rule import MailServer, mail_server, sender
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.content import Content, subject_of, text_of
from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.connection import tls_context

AT_ONCE = 4
MOST_PASSWORD_BYTES = 1_024


class Login(NamedTuple):
    """A user of the mail server, and the file with the password."""

    user: str
    password_file: Path


class Mailer:
    """Threads that send mails. ``close`` ends them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, "mail")

    def close(self) -> None:
        """Start no more mails. Those on their way end with their time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, message: EmailMessage, settings: NotificationSettings) -> None:
        """Send one mail within ``settings.time_limit_s``.

        Raises:
            AttemptFailed: the server did not take it.
            TimeoutError: it took too long.
        """
        client = _client(settings)
        work = partial(_send, client, message, settings)
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            async with asyncio.timeout(settings.time_limit_s):
                await running
        finally:
            client.shut_down()


def message_of(content: Content, place: int, address: str, settings: NotificationSettings) -> EmailMessage:
    """The mail. The library refuses line ends in headers, and the subject has none."""
    source = sender(settings)
    message = EmailMessage()
    message["From"] = source
    message["To"] = address
    message["Subject"] = subject_of(content)
    message["Date"] = formatdate(content.at)
    message["Message-ID"] = f"<rankd-{content.id}-{place}@{source.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Rankd-Event-Id"] = str(content.id)
    message.set_content(text_of(content))
    return message


class _Client(smtplib.SMTP):
    """A connection that another thread can shut down. TLS from its first byte on if ``at_once`` is given."""

    def __init__(self, server: MailServer, context: ssl.SSLContext, time_limit_s: float) -> None:
        self._context = context
        self._server = server
        self._is_over = False
        self._socket: socket.socket | None = None
        super().__init__(timeout=time_limit_s)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found = socket.create_connection((host, port), timeout)
        self._socket = found
        if self._is_over:
            found.close()
        if self._server.is_tls:
            found = self._context.wrap_socket(found, server_hostname=host)
            self._socket = found
        return found

    def open(self) -> None:
        """Connect, and encrypt as the settings say."""
        self._host = self._server.host  # starttls checks the certificate for this name
        self.connect(self._server.host, self._server.port)
        self.ehlo_or_helo_if_needed()
        if not self._server.is_tls and (self._server.needs_tls or self.has_extn("starttls")):
            self.starttls(context=self._context)
            self._socket = self.sock

    def shut_down(self) -> None:
        """End the connection from another thread; what waits for it fails at once."""
        self._is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _client(settings: NotificationSettings) -> _Client:
    if settings.smtp is None:
        raise AttemptFailed("no mail server is configured: notifications.smtp")
    return _Client(mail_server(settings.smtp), tls_context(settings.ca_file), settings.time_limit_s)


def _send(client: _Client, message: EmailMessage, settings: NotificationSettings) -> None:
    try:
        with client:
            client.open()
            if settings.smtp_user is not None and settings.smtp_password_file is not None:
                client.login(settings.smtp_user, _password(Path(settings.smtp_password_file)))
            client.send_message(message)
    except smtplib.SMTPAuthenticationError as error:  # its text may repeat what was sent
        raise AttemptFailed(
            f"the mail server refused the login of notifications.smtp_user ({error.smtp_code})"
        ) from None
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise AttemptFailed(f"the mail server refused the address: {_said(code, text)}", final=code >= 500) from None
    except smtplib.SMTPResponseException as error:
        raise AttemptFailed(f"the mail server answered {_said(error.smtp_code, error.smtp_error)}") from None
    except (smtplib.SMTPException, OSError, ssl.SSLError, ValueError) as error:
        raise AttemptFailed(f"the mail server did not take the mail: {error}") from None


def _said(code: int, text: bytes | str) -> str:
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {shown[:200]}"


def _password(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_PASSWORD_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AttemptFailed(f"notifications.smtp_password_file can't be read: {error}") from None
