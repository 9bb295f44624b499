"""Which way a notification goes, and whether it still may: the administrator may have changed the list since."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.core.errors import RankdError, Refused
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.allow_list import is_allowed
from rankd.core.notification.target import MAIL, WEB, BadTarget, Target, parse_target, with_domain
from rankd.identity.signing_key import read_signing_key, signature
from rankd.services.notifier.apprise_process import send_by_apprise
from rankd.services.notifier.attempt import AttemptFailed
from rankd.services.notifier.connection import open_checked, tls_context
from rankd.services.notifier.mail import Mailer, message_of
from rankd.services.notifier.web import post
from rankd.store.record.notification import Parcel


class Ways(NamedTuple):
    """What sending needs: the mailer, and the file of the key for signatures."""

    mailer: Mailer
    key_file: Path


async def send(parcel: Parcel, ways: Ways, settings: NotificationSettings) -> None:
    """Send it, within ``settings.time_limit_s``.

    Raises:
        Refused: it may not be sent any more.
        AttemptFailed: the receiver did not take it.
    """
    target = allowed_target(parcel.target, settings)
    try:
        async with asyncio.timeout(settings.time_limit_s + 1):  # mails have their own limit, which ends their threads
            await _send(target, parcel, ways, settings)
    except TimeoutError:
        raise AttemptFailed(f"no answer within {settings.time_limit_s:g} s") from None
    except RankdError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise AttemptFailed(f"the connection failed: {error or type(error).__name__}") from None


def allowed_target(text: str, settings: NotificationSettings) -> Target:
    """The target, if it is allowed now.

    Raises:
        Refused: ``notification_not_allowed``, ``bad_notify``.
    """
    try:
        target = parse_target(with_domain(text, settings.mail_domain))
    except BadTarget as error:
        raise Refused("bad_notify", f"notify: {error}", "notify") from None
    if not is_allowed(target, settings.allow):
        message = "the site does not allow this target any more (notifications.allow)"
        raise Refused("notification_not_allowed", message, "notify", status=403)
    return target


async def _send(target: Target, parcel: Parcel, ways: Ways, settings: NotificationSettings) -> None:
    if target.scheme == MAIL:
        await ways.mailer.send(message_of(parcel.content, parcel.place, target.address, settings), settings)
    elif target.scheme == WEB:
        await _send_web(target, parcel, ways, settings)
    else:
        await send_by_apprise(target, parcel.content, settings)


async def _send_web(target: Target, parcel: Parcel, ways: Ways, settings: NotificationSettings) -> None:
    body = msgspec.json.encode(parcel.content)
    headers = {
        "Rankd-Event-Id": str(parcel.event_id),
        "Rankd-Signature": signature(read_signing_key(ways.key_file), body),
    }
    context = tls_context(settings.ca_file)
    async with asyncio.timeout(settings.time_limit_s):
        stream = await open_checked(target.host, target.port, context, settings.private_hosts)
        try:
            await post(stream, target, body, headers)
        finally:
            await stream.close()
