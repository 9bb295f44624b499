"""Whom a service answers. Every answer of a service passes :meth:`Replies.may_answer`, and nothing else decides it.

A sender names the subject for the answer, and the service publishes on it with its own rights. So it has to be an inbox
that the transport gave to the sender, or the sender could make the service publish what the sender may not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from rankd.wire.subject import asker_of, has_user, inbox_allowed, inbox_prefix

log = logging.getLogger("rankd.bus")

ACCOUNT_REPLIES = "_R_"
"""What the broker puts in the place of a reply subject where a request crosses from one account into another."""
COMPLAIN_EVERY_S = 60.0
"""Dropped requests are logged at most so often, so that nobody fills the log."""


class Transport(Protocol):
    """What a connection knows of those who ask on it."""

    @property
    def has_account(self) -> bool:
        """Whether the broker replaces the reply subjects of users and nodes."""

    @property
    def knows_users(self) -> bool:
        """Whether the broker authenticates users, and lets each hear the own inboxes only."""


def is_inbox_of_asker(transport: Transport, subject: str, reply: str) -> bool:
    """Whether a request on ``subject`` may be answered on ``reply``."""
    if transport.has_account:  # the broker has replaced the reply subject of every request from another account
        return inbox_allowed(reply, ACCOUNT_REPLIES) or inbox_allowed(reply)
    if transport.knows_users and has_user(subject):
        try:
            return inbox_allowed(reply, inbox_prefix(asker_of(subject).user))
        except ValueError:  # the name in the subject is not UTF-8
            return False
    return inbox_allowed(reply)


class Replies:
    """The answers of one connection. Counts the requests that were dropped for their reply subjects."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self._transport = transport
        self._clock = clock
        self._complain_at = clock()

    def may_answer(self, subject: str, reply: str) -> bool:
        """Whether to answer. If not, the request is counted and dropped; one without a reply subject only dropped."""
        if is_inbox_of_asker(self._transport, subject, reply):
            return True
        if reply:
            self.dropped += 1
            self._complain(subject)
        return False

    def _complain(self, subject: str) -> None:
        if (now := self._clock()) >= self._complain_at:
            self._complain_at = now + COMPLAIN_EVERY_S
            log.warning(
                "dropped a request on %s: its reply subject is not an inbox of the asker (%d so far)",
                subject,
                self.dropped,
            )
