"""Sends a notification by the library apprise, in a process of its own, which is killed when its time is over.

So the library takes no memory while nothing is sent, and neither a hanging plugin nor what it prints or leaves behind
reaches the notifier. The target goes to the process on its standard input: it may hold a secret.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from contextlib import suppress

import msgspec

from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.content import Content, subject_of, text_of
from rankd.core.notification.target import Target
from rankd.services.notifier.attempt import AttemptFailed

MODULE = "rankd.services.notifier.apprise_worker"
MOST_ANSWER_BYTES = 4_096
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process has to send."""

    target: str
    title: str
    text: str
    private_hosts: list[str]


async def send_by_apprise(target: Target, content: Content, settings: NotificationSettings) -> None:
    """Send it. The caller limits the time.

    Raises:
        AttemptFailed: the library is not installed, does not know the scheme, or has failed.
    """
    if importlib.util.find_spec("apprise") is None:
        raise AttemptFailed(f"{target.scheme} targets need the extra rankd[notify] where the notifier runs")
    order = Order(
        target=target.text,
        title=subject_of(content),
        text=text_of(content),
        private_hosts=settings.private_hosts,
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate(msgspec.json.encode(order))
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        why = said[:MOST_ANSWER_BYTES].decode(errors="replace").strip()
        raise AttemptFailed(why or f"apprise could not send to {target.scheme}://…")
