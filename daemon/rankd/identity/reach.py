"""What each role reaches at the broker. This is the wall between users, nodes and services.

Each user and each node has an account of its own, and imports from the services' account the subjects below, with the
own name in them. Nothing else crosses from one account into another. A reply subject can't cross either: the server
replaces it, so that the services see ``_R_.…`` and the answer finds its way back to the asker only. No account but the
services' has streams, so nobody else can make JetStream publish.

Sessions of users with nodes (:mod:`rankd.wire.session`) go through an account of their own, the hub. Nobody is in it.
Users import requests from it, and it imports those of each node from the node's account. The node answers each request
with as many messages as it likes. They reach the asker only, and nothing else that a node publishes does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rankd.identity.claims import Export, Import
from rankd.wire.subject import (
    DEAD_LETTER_PATTERN,
    ENQUEUE_PATTERN,
    ENROL,
    EVENT_CONFIGURATION,
    EVENT_RANKING,
    EVENT_SCHEDULER,
    HEAD,
    MEASURED,
    NOTIFIER,
    OPENED,
    PREFIX,
    RECORDS,
    SESSION,
    STREAM_EVENTS,
    WAKE,
    WEB,
    WEB_VERBS,
    diag_subject,
    encode_name,
    enqueue_subject,
    figures_subject,
    health_subject,
    inbox_prefix,
    job_event,
    node_pattern,
    node_subject,
    session_in,
)

NODE_REQUESTS = ("register", "heartbeat", "leave", "take", "report", "device", "renew", OPENED)
"""What a node asks of the services."""
NODE_HEARS = ("allocation", SESSION)
"""What a node hears: that an allocation waits, which it has to ask for; and which sessions it may open."""

PUBLIC_EVENTS = (f"{PREFIX}.event.node.>", f"{PREFIX}.event.queue.>", EVENT_RANKING, EVENT_SCHEDULER)
"""Events that every user may hear."""

_DISCOVERY = "$SRV.>"
"""Where micro services describe themselves; several may answer."""

Kind = Literal["service", "stream"]


def services_exports() -> list[Export]:
    """What the services' account offers to all others together; each account imports its own part only."""
    asked = [f"{PREFIX}.user.*.>", f"{PREFIX}.admin.*.>", ENQUEUE_PATTERN, health_subject("*"), ENROL]
    asked.append(f"{PREFIX}.gateway.*.>")
    asked += [node_pattern(kind) for kind in NODE_REQUESTS]
    heard = [f"{PREFIX}.event.>", DEAD_LETTER_PATTERN, *map(node_pattern, NODE_HEARS)]
    return [
        *(Export(name=subject, subject=subject, type="service") for subject in asked),
        Export(name=_DISCOVERY, subject=_DISCOVERY, type="service", response_type="Stream"),
        *(Export(name=subject, subject=subject, type="stream") for subject in heard),
    ]


def user_imports(services: str, user: str, *, may_enqueue: bool = False) -> list[Import]:
    """What a user reaches: the verbs under the own name, the own jobs' events, public events.

    ``services`` is the public key of the services' account. ``may_enqueue``: the user may publish on the enqueue
    subject, which a stream captures.
    """
    asked = [f"{PREFIX}.user.{encode_name(user)}.>"]
    if may_enqueue:
        asked.append(enqueue_subject(user))
    return _imports(services, asked, [job_event(user), *PUBLIC_EVENTS])


def admin_imports(services: str, user: str) -> list[Import]:
    """What an administrator reaches: as a user, administrators' verbs, all events, and the services' health."""
    token = encode_name(user)
    asked = [f"{PREFIX}.user.{token}.>", f"{PREFIX}.admin.{token}.>", enqueue_subject(user), health_subject("*")]
    return _imports(services, [*asked, _DISCOVERY], [f"{PREFIX}.event.>"])


def gateway_imports(services: str, gateway: str) -> list[Import]:
    """What a gateway reaches: requests for users, under its own name. That of the page: some verbs only."""
    if gateway == WEB:
        return _imports(services, [f"{PREFIX}.gateway.{WEB}.*.{verb}" for verb in WEB_VERBS], [])
    return _imports(services, [f"{PREFIX}.gateway.{encode_name(gateway)}.>"], [])


def node_imports(services: str, node: str, *, vouches: bool = False) -> list[Import]:
    """What a node reaches: requests and reports under the own name, and hints of its own allocations.

    ``vouches``: an administrator lets it ask for the users of its machine, under its own name as a gateway's.
    """
    asked = [node_subject(node, kind) for kind in NODE_REQUESTS]
    if vouches and node not in (HEAD, WEB):
        asked.append(f"{PREFIX}.gateway.{encode_name(node)}.>")
    return _imports(services, asked, [node_subject(node, kind) for kind in NODE_HEARS])


def hub_exports() -> list[Export]:
    """What the hub of sessions offers to users; each of them imports the own part only."""
    return [_session_export(None)]


def hub_imports(accounts: Mapping[str, str]) -> list[Import]:
    """What the hub imports. ``accounts``: the public key of the account of each node."""
    subjects = ((session_in(None, node, None), account) for node, account in accounts.items())
    return [Import(name=subject, subject=subject, account=account, type="service") for subject, account in subjects]


def node_exports(node: str) -> list[Export]:
    """What a node's account offers to the hub: what is sent to sessions on this node."""
    return [_session_export(node)]


def session_imports(hub: str, user: str | None) -> list[Import]:
    """What a user reaches of sessions: those under the own name. ``hub`` is the public key of the hub's account.

    None: those of all users, for the services' account. The site's owner has it to act as any user.
    """
    subject = session_in(user, None, None)
    return [Import(name=subject, subject=subject, account=hub, type="service")]


def _session_export(node: str | None) -> Export:
    subject = session_in(None, node, None)
    return Export(name=subject, subject=subject, type="service", response_type="Stream")


def enrolment_imports(services: str) -> list[Import]:
    """What an invitation reaches: the one subject on which it is exchanged for credentials."""
    return _imports(services, [ENROL], [])


def notifier_publishes() -> list[str]:
    """What the notifier may publish in the services' account: requests for its messages, and wake-ups."""
    consumer = f"{STREAM_EVENTS}.{NOTIFIER}"
    return [f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", f"$JS.API.CONSUMER.INFO.{consumer}", f"$JS.ACK.{consumer}.>", WAKE]


def notifier_hears() -> list[str]:
    """What the notifier may subscribe to: its own inboxes, questions about its health, and new configurations."""
    asked = [make(NOTIFIER) for make in (health_subject, diag_subject, figures_subject)]
    return [f"{inbox_prefix(NOTIFIER)}.>", *asked, EVENT_CONFIGURATION, WAKE]


def web_publishes() -> list[str]:
    """What the page may publish in the services' account: questions for their figures, which change nothing."""
    return [f"{inbox_prefix(WEB)}.nothing", *map(figures_subject, (*MEASURED, RECORDS))]


def web_hears() -> list[str]:
    """What the page may subscribe to: its own inboxes, questions about its health, and hints that something is new."""
    return [f"{inbox_prefix(WEB)}.>", health_subject(WEB), EVENT_CONFIGURATION, EVENT_RANKING, WAKE]


def _imports(services: str, asked: Sequence[str], heard: Sequence[str]) -> list[Import]:
    kinds: list[tuple[str, Kind]] = [
        *((subject, "service") for subject in asked),
        *((subject, "stream") for subject in heard),
    ]
    return [Import(name=subject, subject=subject, account=services, type=kind) for subject, kind in kinds]
