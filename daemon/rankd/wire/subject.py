"""Subjects under one prefix. The subject identifies the sender; the payload never does.

In subjects, names are percent-encoded except for ``[A-Za-z0-9_-]``, so that ``first.last`` is one token.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

PREFIX = "rankd.v1"
HEAD = "head"
"""The name of the gateway beside the services. No node's gateway has it."""
WEB = "web"
"""The name of the service of the page, and of its gateway. No node's gateway has it."""
WEB_VERBS = (
    "job.cancel",
    "job.hold",
    "job.log",
    "job.release",
    "job.retry",
    "job.update",
    "diag.show",
    "page.look",
    "report.make",
    "report.part",
)
"""All that the page may ask for its users. The broker lets it publish on no other subject."""

SESSION, OPENED = "session", "opened"
"""The kinds of a node's subjects on which sessions are granted, and on which its agent says that one is open."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def encode_name(name: str) -> str:
    """A user's or node's name as one subject token.

    >>> encode_name("first.last")
    'first%2Elast'
    """
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def decode_name(token: str) -> str:
    """The name in a token.

    >>> decode_name("first%2Elast")
    'first.last'

    Raises:
        ValueError: the token is not the one that :func:`encode_name` gives. A name has one token only, so that the
            broker's permissions for this token hold for the name.
    """
    name = unquote(token, errors="strict")
    if encode_name(name) != token:
        raise ValueError(f"'{token}' is not a name's token; write {encode_name(name)}")
    return name


class Asker(NamedTuple):
    """The sender according to the subject: the user, and whether as an administrator.

    ``via``: the gateway that vouches for the user; None where the broker does.
    """

    user: str
    privileged: bool
    via: str | None = None


def user_request(user: str, verb: str) -> str:
    """The subject of a user's request for ``verb`` (such as ``job.submit``)."""
    return f"{PREFIX}.user.{encode_name(user)}.{verb}"


def admin_request(user: str, verb: str) -> str:
    """The subject of an administrator's request."""
    return f"{PREFIX}.admin.{encode_name(user)}.{verb}"


def gateway_request(gateway: str, user: str, verb: str) -> str:
    """The subject on which a gateway asks for a user whom the kernel has named to it."""
    return f"{PREFIX}.gateway.{encode_name(gateway)}.{encode_name(user)}.{verb}"


def gateway_pattern(verb: str) -> str:
    """The pattern of :func:`gateway_request` for every gateway and user."""
    return f"{PREFIX}.gateway.*.*.{verb}"


def is_admin_request(subject: str) -> bool:
    """Whether it is the subject of an administrator's request."""
    return subject.startswith(f"{PREFIX}.admin.")


def is_node_request(subject: str) -> bool:
    """Whether it is the subject of a node's agent."""
    return subject.startswith(f"{PREFIX}.node.")


def sender_in(subject: str) -> str:
    """Who sends a request, according to its subject. A user is the same one with and without a gateway.

    >>> sender_in("rankd.v1.user.alice.job.list"), sender_in("rankd.v1.gateway.head.alice.job.list")
    ('user.alice', 'user.alice')
    """
    tokens = subject[len(PREFIX) + 1 :].split(".", 3)
    return f"user.{tokens[2]}" if tokens[0] == "gateway" else ".".join(tokens[:2])


def is_user_request(sender: str) -> bool:
    """Whether :func:`sender_in` returned a user who does not ask as an administrator."""
    return sender.startswith("user.")


def has_user(subject: str) -> bool:
    """Whether a request's subject names the user who asks: then :func:`asker_of` returns the name."""
    return subject.startswith((f"{PREFIX}.user.", f"{PREFIX}.admin.", f"{PREFIX}.gateway."))


_CLAIM = "as-admin"
"""A user who is an administrator by the configuration puts this between the own name and the verb."""


def claiming_request(user: str, verb: str) -> str:
    """The subject of a user who asks with the rights that the configuration gives to an administrator.

    Every user may publish on it, under the own name. The intake decides.
    """
    return f"{PREFIX}.user.{encode_name(user)}.{_CLAIM}.{verb}"


def is_claiming(subject: str) -> bool:
    """Whether it is a subject of :func:`claiming_request`."""
    tokens = subject[len(PREFIX) + 1 :].split(".", 3)
    return tokens[0] == "user" and tokens[2] == _CLAIM


def request_patterns(verb: str) -> tuple[str, str, str]:
    """The patterns on which the daemon listens for a verb: users', administrators', administrators by configuration."""
    return f"{PREFIX}.user.*.{verb}", f"{PREFIX}.admin.*.{verb}", f"{PREFIX}.user.*.{_CLAIM}.{verb}"


def asker_of(subject: str) -> Asker:
    """The sender of a request on this subject."""
    role, token, rest = subject[len(PREFIX) + 1 :].split(".", 2)
    if role == "gateway":
        return Asker(decode_name(rest.split(".", 1)[0]), privileged=False, via=decode_name(token))
    return Asker(decode_name(token), role == "admin")


def node_subject(node: str, kind: str) -> str:
    """A node's subject: ``register``, ``heartbeat``, ``take``, ``report``, ``device``, ``allocation`` and others."""
    return f"{PREFIX}.node.{encode_name(node)}.{kind}"


def node_pattern(kind: str) -> str:
    """The pattern of :func:`node_subject` for every node."""
    return f"{PREFIX}.node.*.{kind}"


def node_of(subject: str) -> str:
    """The node that published on this subject."""
    return decode_name(subject[len(PREFIX) + 1 :].split(".", 2)[1])


def session_grant(node: str) -> str:
    """The subject on which the intake lets a node's agent open sessions (:class:`rankd.wire.session.Grant`)."""
    return node_subject(node, SESSION)


def session_out(user: str | None, node: str | None, session: str | None) -> str:
    """Where a session's agent sends to the user who asked. None: the pattern for all of them."""
    return _session(user, node, session, "out")


def session_in(user: str | None, node: str | None, session: str | None) -> str:
    """Where the user sends to a session's agent. None: the pattern for all of them."""
    return _session(user, node, session, "in")


def _session(user: str | None, node: str | None, session: str | None, way: str) -> str:
    tokens = ["*" if name is None else encode_name(name) for name in (user, node, session)]
    return f"{PREFIX}.session.{'.'.join(tokens)}.{way}"


def job_event(user: str) -> str:
    """The subject of the transitions of a user's jobs."""
    return f"{PREFIX}.event.job.{encode_name(user)}"


def job_event_pattern() -> str:
    """The same of every user."""
    return f"{PREFIX}.event.job.*"


def node_event(node: str) -> str:
    """The subject of a node's events."""
    return f"{PREFIX}.event.node.{encode_name(node)}"


def queue_event(path: str) -> str:
    """The subject of a queue's events."""
    return f"{PREFIX}.event.queue.{encode_name(path)}"


def enqueue_subject(user: str) -> str:
    """The subject for a user's durable submissions, which an intake reads as soon as one runs."""
    return f"{PREFIX}.enqueue.{encode_name(user)}"


ENROL = f"{PREFIX}.enrol"
"""The subject on which an invitation is exchanged for credentials."""
RENEW_VERB = "login.renew"
"""The verb of users who ask for credentials that last longer. A node asks on its subject ``renew``."""

ENQUEUE_PATTERN = f"{PREFIX}.enqueue.*"
"""The pattern for every user. Only a stream listens on it: another listener would win the reply against it."""


def enqueuer_of(subject: str) -> str:
    """The user that published on this subject."""
    return decode_name(subject[len(PREFIX) + 1 :].split(".", 1)[1])


def dead_letter_subject(user: str) -> str:
    """The subject of a user's submissions that could not be accepted."""
    return f"{PREFIX}.deadletter.{encode_name(user)}"


DEAD_LETTER_PATTERN = f"{PREFIX}.deadletter.*"


def factor_event(factor: str) -> str:
    """The subject of events that a factor failed, or works again."""
    return f"{PREFIX}.event.factor.{encode_name(factor)}"


def adapter_event(adapter: str) -> str:
    """The subject of events that an adapter failed, works again, or has another input."""
    return f"{PREFIX}.event.adapter.{encode_name(adapter)}"


EVENT_RANKING = f"{PREFIX}.event.ranking"
EVENT_SCHEDULER = f"{PREFIX}.event.scheduler"
EVENT_CONFIGURATION = f"{PREFIX}.event.configuration"
WAKE = f"{PREFIX}.internal.committed"
"""Published after a commit that other services may need. It is a hint: the records are authoritative."""

FORECAST_WANTED = f"{PREFIX}.internal.forecast"
"""Published by the intake if somebody asks for a start that no forecast knows yet. It is a hint."""

STREAM_EVENTS = "RANKD_EVENTS"
STREAM_SUBMISSIONS = "RANKD_SUBMISSIONS"
STREAM_DEAD_LETTERS = "RANKD_DEAD_LETTERS"
NOTIFIER = "notifier"
"""The name of the notifier, of its consumer of the stream of events, and of its inboxes."""


def health_subject(service: str) -> str:
    """The subject on which a service answers with its health."""
    return f"{PREFIX}.internal.health.{service}"


def diag_subject(service: str) -> str:
    """The subject on which a service answers with its figures."""
    return f"{PREFIX}.internal.diag.{service}"


def figures_subject(service: str) -> str:
    """The subject on which a service answers with what it exports to Prometheus. It is not asked to change anything."""
    return f"{PREFIX}.internal.figures.{service}"


MEASURED = ("intake", "prioritizer", "scheduler", "forecaster", NOTIFIER, "gateway")
RECORDS = "records"
"""On its subject of figures, the intake answers with those of the records, for who has no database."""
"""The services that answer on :func:`figures_subject`. Agents can't: they are in accounts of their own."""


def inbox_prefix(user: str) -> str:
    """The prefix of the inboxes for answers to a user, if the broker authenticates users.

    >>> inbox_prefix("first.last")
    '_INBOX.first%2Elast'
    """
    return f"_INBOX.{encode_name(user)}"


def inbox_allowed(reply: str, prefix: str = "_INBOX") -> bool:
    """Whether a reply subject is an inbox. Any other subject would be published on with the daemon's rights.

    >>> inbox_allowed("rankd.v1.node.n1.allocation")
    False
    >>> inbox_allowed("_INBOX.bob.x1", inbox_prefix("alice"))
    False
    """
    return reply.startswith(f"{prefix}.") and re.fullmatch(r"[^ *>]+", reply[len(prefix) + 1 :]) is not None
