"""The credentials of an agent: those that were given, those that it keeps, or those that it gets for a token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused, usable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from rankd.identity.invitation import InvitationText
    from rankd.identity.node_file import NodeRecord


class Belonging(NamedTuple):
    """The broker, the file of credentials, the node's name; ``is_kept``: the agent keeps the file, and renews it."""

    nats: str | None
    creds: Path | None
    name: str | None
    is_kept: bool = False


def belonging(arguments: argparse.Namespace) -> Belonging:
    """What the agent connects with. A token that was exchanged before is not needed again.

    Raises:
        Refused: the token can't be exchanged; the credentials that the agent keeps have ended.
        Unavailable: no broker answers.
    """
    given = Belonging(arguments.nats, arguments.creds, arguments.name)
    if arguments.creds is not None:
        return given
    from rankd.identity.node_file import CREDENTIALS, read_node_record

    state = arguments.state
    with usable(state, "state"):
        record = read_node_record(state)
        invitation = _invitation(arguments, record)
        if invitation is not None:
            record = _enrol(invitation, state, arguments.name)
    if record is None:
        return given
    _check_name(arguments.name, record.name)
    _check_end(state / CREDENTIALS)
    return Belonging(arguments.nats or record.nats, state / CREDENTIALS, record.name, is_kept=True)


def _invitation(arguments: argparse.Namespace, record: NodeRecord | None) -> InvitationText | None:
    """The invitation, if there is one that was not exchanged yet. A file that has gone is not needed any more."""
    from rankd.cli.common.token_source import read_token_file
    from rankd.identity.invitation import digest_of, read_invitation

    if arguments.token is None and arguments.token_file is None:
        return None
    if arguments.token is None and record is not None and not arguments.token_file.exists():
        return None
    text = arguments.token if arguments.token is not None else read_token_file(arguments.token_file)
    invitation = read_invitation(text)
    return None if record is not None and record.invitation == digest_of(invitation.secret) else invitation


def _enrol(invitation: InvitationText, state: Path, name: str | None) -> NodeRecord:
    """Exchange the invitation, and keep what it gives."""
    from rankd.bus.enrolment import exchange
    from rankd.client.session import run_quietly
    from rankd.identity.invitation import digest_of
    from rankd.identity.node_file import PENDING, NodeRecord, keep_node

    if invitation.role != "node":
        message = f"this token is for {invitation.role} '{invitation.name}', not for a node: rankd login"
        raise Refused("usage", message, "token")
    _check_name(name, invitation.name)
    state.mkdir(parents=True, exist_ok=True)
    enrolled = run_quietly(invitation.nats[0], lambda: exchange(invitation, state / PENDING))
    record = NodeRecord(nats=enrolled.nats, name=enrolled.name, invitation=digest_of(invitation.secret))
    keep_node(state, record, enrolled.credentials)
    print(f"rankd: enrolled as node '{record.name}' at {record.nats}; no token is needed from now on")
    return record


def _check_name(given: str | None, name: str) -> None:
    if given is not None and given != name:
        message = f"the credentials are those of node '{name}', and this agent is '{given}'; give --name {name}"
        raise Refused("bad_credentials", message, "name", status=403)


def _check_end(path: Path) -> None:
    from rankd.core.instant import shown_instant
    from rankd.identity.credentials import read_credentials

    claims = read_credentials(path).claims()
    if claims.expires_at is not None and claims.expires_at <= time.time():
        ended = f"the credentials in {path} ended at {shown_instant(claims.expires_at)}: the agent was stopped too long"
        message = f"{ended} to renew them; on the head: rankd node enrol {claims.name}, then give --token-file"
        raise Refused("credentials_ended", message, "creds", status=401)
