"""``rankd auth``: credentials for users and nodes, from the secret of the site that ``rankd up`` keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.administer import auth_brokers, auth_check, auth_external, auth_invite, auth_user
from rankd.cli.administer.site_access import make_known, open_site_in, owner_of, role_of_user, site_directory
from rankd.cli.common.option import add_command, add_place, refuse_empty
from rankd.cli.common.place import find
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Refused, usable
from rankd.core.submission.duration import parse_duration

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.identity.site import Role


def add_parser(subparsers: Subparsers) -> None:
    """Add ``auth``."""
    parser = add_command(subparsers, "auth", run, "Credentials for users and nodes.")
    commands = parser.add_subparsers(dest="auth_command", required=True, metavar="COMMAND")
    auth_external.add_init(commands)
    auth_brokers.add_brokers(commands)
    auth_check.add_check(commands)
    auth_user.add_user(commands)
    auth_invite.add_invite(commands)
    _add_creds(commands)
    _add_revoke(commands)
    _add_notify_key(commands)


def _add_creds(commands: Subparsers) -> None:
    creds = commands.add_parser(
        "creds",
        help="write credentials for a user or a node to a file",
        description="Write a file of credentials, which every NATS client understands. Anyone with the file can act as"
        " that user or node. Needs the site's secret, so only the user who started `rankd up` can do it.",
        allow_abbrev=False,
    )
    whose = creds.add_mutually_exclusive_group()
    whose.add_argument("--user", metavar="USER", help="for this user (default: the user who started `rankd up`)")
    whose.add_argument("--node", metavar="NODE", help="for the agent of this node")
    creds.add_argument("--admin", action="store_true", help="with an administrator's rights")
    creds.add_argument(
        "--lasts", metavar="TIME", default="unlimited", help="how long they are valid: 12h, 30d (default: unlimited)"
    )
    creds.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file to write (mode 0600)")
    creds.set_defaults(run=run_creds)
    add_place(creds)


def _add_revoke(commands: Subparsers) -> None:
    revoke = commands.add_parser(
        "revoke",
        help="end the access of a user or a node",
        description="Revoke all credentials and invitations of a user or a node. Open connections end within seconds."
        " Jobs run on. `rankd auth creds` or an invitation gives access again.",
        allow_abbrev=False,
    )
    whose = revoke.add_mutually_exclusive_group(required=True)
    whose.add_argument("--user", metavar="USER", help="of this user")
    whose.add_argument("--node", metavar="NODE", help="of the agent of this node")
    revoke.set_defaults(run=run_revoke)
    add_place(revoke)


def _add_notify_key(commands: Subparsers) -> None:
    key = commands.add_parser(
        "notify-key",
        help="print the key with which notifications are signed",
        description="Print the key with which this site signs notifications, for their receivers. Who has it can sign"
        " notifications, and nothing else. Only the user who started `rankd up` can read it.",
        allow_abbrev=False,
    )
    key.add_argument("--renew", action="store_true", help="make a new key first; the old one is no longer used")
    key.set_defaults(run=run_notify_key)
    add_place(key)


def run_notify_key(arguments: argparse.Namespace) -> int:
    """Print the key; make one if there is none."""
    from rankd.identity.signing_key import open_signing_key
    from rankd.services.up.command import signing_key_in

    place = find(arguments)
    if place.directory is None:
        raise Refused("usage", "the key is in a file of `rankd up`; name its directory with --dir", "dir")
    file = signing_key_in(place.directory)
    with usable(file, "dir"):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        print(open_signing_key(file, is_renewed=arguments.renew))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Never reached: a command is required."""
    raise AssertionError(arguments)


def run_creds(arguments: argparse.Namespace) -> int:
    """Make the account known to the broker, sign credentials, write them."""
    from rankd.identity.credentials import write_private
    from rankd.identity.register import given
    from rankd.identity.register_file import change_register
    from rankd.identity.site import Role, readmit

    refuse_empty(arguments, "user", "node", "out")
    if arguments.node and arguments.admin:
        raise Refused("usage", "a node has no administrator's rights; leave out --admin", "admin")
    lasts_s = parse_duration(arguments.lasts)
    place = find(arguments)
    url, directory = place.need_nats(), site_directory(place)
    role, name = _whose(arguments, directory)
    if arguments.admin:
        role = Role.ADMIN
    now = time.time()
    readmit(directory, role, name)
    until = None if lasts_s is None else now + lasts_s
    change_register(directory, lambda register: given(register, role, name, now, until))
    site = open_site_in(directory)
    make_known(place, site, role, name)
    with usable(arguments.out, "out"):
        write_private(arguments.out, site.credentials(role, name, now, lasts_s).text())
    print(f"{arguments.out}: credentials of {role} '{name}' for {url}")
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    """End the access of the user or node that the options name."""
    refuse_empty(arguments, "user", "node")
    place = find(arguments)
    role, name = _whose(arguments, site_directory(place))
    return auth_user.end_access(place, role, name)


def _whose(arguments: argparse.Namespace, directory: Path) -> tuple[Role, str]:
    """The role and name that the options mean; without any, those of the user who started ``rankd up``.

    Raises:
        Refused: ``bad_name``, ``bad_user``: the name can't be one.
    """
    from rankd.identity.site import Role

    if arguments.node:
        check_node_name(arguments.node)
        return Role.NODE, arguments.node
    user = arguments.user or owner_of(directory)
    return role_of_user(directory, user), user
