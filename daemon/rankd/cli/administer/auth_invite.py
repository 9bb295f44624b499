"""``rankd auth invite`` and ``rankd node enrol``: tokens for one use, which are exchanged for credentials."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.administer.site_access import open_site_in, role_of_user, site_directory
from rankd.cli.common.option import add_place, refuse_empty
from rankd.cli.common.place import find
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Refused, usable
from rankd.core.submission.duration import parse_duration

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.client.place import Place
    from rankd.identity.site import Role

LONGEST_S = 30 * 86_400.0
TOLD_S = 3_600.0
"""For so long after its end, an invitation still gets to the gateway, which says that it ended."""
NO_CA = (
    "this site has not encrypted its connections yet, so the token holds no CA; if the first `rankd up` encrypts, as"
    " with --listen, the token will be refused: start rankd first, then invite"
)


def add_invite(commands: Subparsers) -> None:
    """Add ``auth invite``."""
    invite = commands.add_parser(
        "invite",
        help="print a token with which a user logs in on another machine",
        description="Print a token for one use. `rankd login` exchanges it for credentials. Anyone who has the token"
        " first can act as that user: pass it on in private. Works while rankd is stopped, too.",
        allow_abbrev=False,
    )
    invite.add_argument("user", metavar="USER", help="the user who is invited")
    add_options(invite)
    invite.set_defaults(run=run_invite)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of an invitation."""
    parser.add_argument(
        "--lasts",
        metavar="TIME",
        default="1h",
        help="how long the token can be used: 15m, 2d; at most 30d (default: 1h)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        action="append",
        default=[],
        help="URL of the broker for other machines (default: where `rankd up` listens). If it is repeated, the first"
        " one that answers is used. Brokers of a cluster: their URLs in one text, with commas",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the token to this file (mode 0600)")
    add_place(parser)


def run_invite(arguments: argparse.Namespace) -> int:
    """Invite a user. A user who is not known yet is added."""
    refuse_empty(arguments, "user", "out")
    place = find(arguments)
    role = role_of_user(site_directory(place), arguments.user)
    return _invite(arguments, place, role, arguments.user, "rankd login")


def run_enrol(arguments: argparse.Namespace) -> int:
    """Let a node's agent enrol."""
    from rankd.identity.site import Role

    refuse_empty(arguments, "node", "out")
    check_node_name(arguments.node)
    return _invite(arguments, find(arguments), Role.NODE, arguments.node, "rankd agent --state DIR --token-file FILE")


def _invite(arguments: argparse.Namespace, place: Place, role: Role, name: str, command: str) -> int:
    from rankd.cli.common.broker_url import urls_for_others
    from rankd.cli.common.duration import shown_time
    from rankd.identity.credentials import CA_FILE

    lasts_s = _lasts(arguments.lasts)
    directory = site_directory(place)
    urls, warning = urls_for_others(place, arguments.url)
    if warning is None and place.nats is None and not (directory / CA_FILE).exists():
        warning = NO_CA
    now = time.time()
    text = _token(directory, role, name, urls, now, lasts_s)
    if arguments.out is None:
        print(text)
    else:
        from rankd.identity.credentials import write_private

        with usable(arguments.out, "out"):
            write_private(arguments.out, text + "\n")
    until = shown_time(now + lasts_s)
    print(f"for {role} '{name}', for one use until {until}; there: {command}", file=sys.stderr)
    if warning:
        print(f"rankd: {warning}", file=sys.stderr)
    return 0


def _lasts(text: str) -> float:
    lasts_s = parse_duration(text)
    if lasts_s is None or lasts_s > LONGEST_S:
        raise Refused("usage", f"'{text}': an invitation can be used for at most 30 days; write 1h, 2d", "lasts")
    return lasts_s


def _token(directory: Path, role: Role, name: str, urls: list[str], now: float, lasts_s: float) -> str:
    """Register an invitation; returns its text."""
    from rankd.identity.invitation import InvitationText, digest_of, new_secret
    from rankd.identity.register import Invitation, invited
    from rankd.identity.register_file import change_register
    from rankd.identity.site import readmit

    open_site_in(directory)
    readmit(directory, role, name)
    site, secret = open_site_in(directory), new_secret()
    made_at = max(int(now), (site.revoked_at(role, name) or 0) + 1)
    invitation = Invitation(role=role, name=name, made_at=made_at, expires_at=int(now + lasts_s))
    change_register(directory, lambda register: invited(register, digest_of(secret), invitation, now))
    credentials = site.enrolment(now, lasts_s + TOLD_S)
    return InvitationText(
        nats=urls,
        role=str(role),
        name=name,
        expires_at=invitation.expires_at,
        secret=secret,
        token=credentials.token,
        seed=credentials.seed,
        ca=site.ca or None,
    ).text()
