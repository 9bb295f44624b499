"""Subjects under one prefix. The subject says who asks; the payload never does.

Names inside subjects are percent-encoded but for ``[A-Za-z0-9_-]``, so that ``first.last`` is one token.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

PREFIX = "rankd.v1"

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def encode_name(name: str) -> str:
    """A user's or node's name as one subject token.

    >>> encode_name("first.last")
    'first%2Elast'
    """
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def decode_name(token: str) -> str:
    """The name behind a token.

    >>> decode_name("first%2Elast")
    'first.last'
    """
    return unquote(token, errors="strict")


class Asker(NamedTuple):
    """Who asks, by the subject: the user, and whether as an administrator."""

    user: str
    privileged: bool


def user_request(user: str, verb: str) -> str:
    """Where a user asks for ``verb`` (``job.submit``)."""
    return f"{PREFIX}.user.{encode_name(user)}.{verb}"


def admin_request(user: str, verb: str) -> str:
    """Where an administrator asks."""
    return f"{PREFIX}.admin.{encode_name(user)}.{verb}"


def is_admin_request(subject: str) -> bool:
    """Whether it is one where administrators ask."""
    return subject.startswith(f"{PREFIX}.admin.")


def request_patterns(verb: str) -> tuple[str, str]:
    """What the daemon listens on for a verb: users', administrators'."""
    return f"{PREFIX}.user.*.{verb}", f"{PREFIX}.admin.*.{verb}"


def asker_of(subject: str) -> Asker:
    """Who published a request on this subject."""
    role, token = subject[len(PREFIX) + 1 :].split(".", 2)[:2]
    return Asker(decode_name(token), role == "admin")


def node_subject(node: str, kind: str) -> str:
    """A node's subject: ``register``, ``heartbeat``, ``leave``, ``take``, ``report``, ``allocation``."""
    return f"{PREFIX}.node.{encode_name(node)}.{kind}"


def node_pattern(kind: str) -> str:
    """The same of every node."""
    return f"{PREFIX}.node.*.{kind}"


def node_of(subject: str) -> str:
    """Which node published on this subject."""
    return decode_name(subject[len(PREFIX) + 1 :].split(".", 2)[1])


def job_event(user: str) -> str:
    """Where the transitions of a user's jobs are published."""
    return f"{PREFIX}.event.job.{encode_name(user)}"


def node_event(node: str) -> str:
    """Where what happens to a node is published."""
    return f"{PREFIX}.event.node.{encode_name(node)}"


def queue_event(path: str) -> str:
    """Where what happens to a queue is published."""
    return f"{PREFIX}.event.queue.{encode_name(path)}"


def enqueue_subject(user: str) -> str:
    """Where a user publishes what is to be submitted as soon as somebody can take it."""
    return f"{PREFIX}.enqueue.{encode_name(user)}"


ENQUEUE_PATTERN = f"{PREFIX}.enqueue.*"
"""The same of every user. A stream captures it; nobody serves it, or the stream's answer would win the reply."""


def enqueuer_of(subject: str) -> str:
    """Which user published on this subject."""
    return decode_name(subject[len(PREFIX) + 1 :].split(".", 1)[1])


def dead_letter_subject(user: str) -> str:
    """Where a user's submissions that could not be accepted end."""
    return f"{PREFIX}.deadletter.{encode_name(user)}"


DEAD_LETTER_PATTERN = f"{PREFIX}.deadletter.*"


def factor_event(factor: str) -> str:
    """Where it is said that a factor failed, or works again."""
    return f"{PREFIX}.event.factor.{encode_name(factor)}"


def adapter_event(adapter: str) -> str:
    """Where it is said that an adapter failed, works again, or gives something else."""
    return f"{PREFIX}.event.adapter.{encode_name(adapter)}"


EVENT_RANKING = f"{PREFIX}.event.ranking"
EVENT_SCHEDULER = f"{PREFIX}.event.scheduler"
EVENT_CONFIGURATION = f"{PREFIX}.event.configuration"
WAKE = f"{PREFIX}.internal.committed"
"""Published by whoever committed something that others may wait for. A hint: the records are the truth."""

STREAM_EVENTS = "RANKD_EVENTS"
STREAM_SUBMISSIONS = "RANKD_SUBMISSIONS"
STREAM_DEAD_LETTERS = "RANKD_DEAD_LETTERS"


def health_subject(service: str) -> str:
    """Where a service answers whether it is well."""
    return f"{PREFIX}.internal.health.{service}"


def diag_subject(service: str) -> str:
    """Where a service says how it is doing."""
    return f"{PREFIX}.internal.diag.{service}"


def inbox_prefix(user: str) -> str:
    """Under which the answers to a user come, where the broker knows its users.

    >>> inbox_prefix("first.last")
    '_INBOX.first%2Elast'
    """
    return f"_INBOX.{encode_name(user)}"


def inbox_allowed(reply: str, prefix: str = "_INBOX") -> bool:
    """Whether a reply subject is an inbox; anything else is a request to speak with the daemon's rights.

    >>> inbox_allowed("rankd.v1.node.n1.allocation")
    False
    >>> inbox_allowed("_INBOX.bob.x1", inbox_prefix("alice"))
    False
    """
    return reply.startswith(f"{prefix}.") and re.fullmatch(r"[^ *>]+", reply[len(prefix) + 1 :]) is not None
