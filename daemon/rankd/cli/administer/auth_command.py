"""``rankd auth``: credentials for users and nodes, from the secret of the site that ``rankd up`` keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.administer import auth_check, auth_external
from rankd.cli.common.duration import parse_duration
from rankd.cli.common.option import add_command, add_place, refuse_empty
from rankd.cli.common.place import find
from rankd.cli.common.session import LONGEST_USER
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Refused, usable
from rankd.services.up.command import ADMIN_CREDENTIALS, AUTH_DIRECTORY

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.cli.common.place import Place
    from rankd.identity.site import Role, Site


def add_parser(subparsers: Subparsers) -> None:
    """Add ``auth``."""
    parser = add_command(subparsers, "auth", run, "Credentials for users and nodes.")
    commands = parser.add_subparsers(dest="auth_command", required=True, metavar="COMMAND")
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
    auth_external.add_init(commands)
    auth_check.add_check(commands)
    revoke = commands.add_parser(
        "revoke",
        help="end the access of a user or a node",
        description="Revoke all credentials of a user or a node. Open connections end within seconds. Jobs run on."
        " `rankd auth creds` gives access again.",
        allow_abbrev=False,
    )
    whose = revoke.add_mutually_exclusive_group(required=True)
    whose.add_argument("--user", metavar="USER", help="of this user")
    whose.add_argument("--node", metavar="NODE", help="of the agent of this node")
    revoke.set_defaults(run=run_revoke)
    add_place(revoke)


def run(arguments: argparse.Namespace) -> int:
    """Never reached: a command is required."""
    raise AssertionError(arguments)


def run_creds(arguments: argparse.Namespace) -> int:
    """Make the account known to the broker, sign credentials, write them."""
    from rankd.cli.common.session import run_quietly
    from rankd.identity.credentials import write_private
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
    readmit(directory, role, name)
    site = site_in(directory)
    run_quietly(url, lambda: make_known(place, url, site, role, name))
    with usable(arguments.out, "out"):
        write_private(arguments.out, site.credentials(role, name, time.time(), lasts_s).text())
    print(f"{arguments.out}: credentials of {role} '{name}' for {url}")
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    """Record it, then update the broker. A broker that can't be reached learns it at its next start."""
    from rankd.cli.common.session import run_quietly
    from rankd.identity.site import Role, revoke

    refuse_empty(arguments, "user", "node")
    place = find(arguments)
    directory = site_directory(place)
    role, name = _whose(arguments, directory)
    if role is Role.ADMIN:
        raise Refused("usage", f"'{name}' started this rankd, and can't be shut out of it", "user")
    site_in(directory)
    revoke(directory, role, name, time.time())
    site = site_in(directory)
    if (url := place.nats) is not None:
        run_quietly(url, lambda: make_known(place, url, site, role, name))
    print(f"the access of {role} '{name}' is revoked")
    return 0


def _whose(arguments: argparse.Namespace, directory: Path) -> tuple[Role, str]:
    """The role and name that the options mean; without any, those of the user who started ``rankd up``.

    Raises:
        Refused: ``bad_node``, ``bad_user``: the name can't be one.
    """
    from rankd.identity.credentials import read_credentials
    from rankd.identity.site import Role

    if arguments.node:
        check_node_name(arguments.node)
        return Role.NODE, arguments.node
    own = read_credentials(directory / ADMIN_CREDENTIALS).claims().name
    user = arguments.user or own
    if len(user) > LONGEST_USER or not user.isprintable():
        raise Refused("bad_user", f"the name of a user has to have 1 to {LONGEST_USER} printable characters", "user")
    return (Role.ADMIN if user == own else Role.USER), user


def site_in(directory: Path) -> Site:
    """The site with this secret.

    Raises:
        Refused: ``not_permitted``: it can't be read.
    """
    from rankd.identity.site import read_site

    try:
        return read_site(directory)
    except OSError as error:
        message = f"the site's secret in {directory} can't be read: {error.strerror or error}"
        raise Refused("not_permitted", message, "dir", status=403) from None


async def make_known(place: Place, url: str, site: Site, role: Role, name: str) -> None:
    """Give an account to the broker, as it is now."""
    from rankd.bus.account_update import system_bus, update_accounts

    async with system_bus(url, site, tls=place.tls) as system:
        await update_accounts(system, [site.account(role, name, time.time())])


def site_directory(place: Place) -> Path:
    """Where the site's secret is: in the directory of a ``rankd up``, whether it runs or not.

    Raises:
        Refused: ``not_permitted``: this user did not start it, or it gives out no credentials.
    """
    if place.creds is not None:
        return place.creds.parent
    if place.login is not None:
        message = "only the user who started this rankd can give credentials or revoke them"
        raise Refused("not_permitted", message, "dir", status=403)
    if place.nats is None and place.directory is not None and (place.directory / AUTH_DIRECTORY).is_dir():
        return place.directory / AUTH_DIRECTORY
    message = "this rankd gives out no credentials: it was started with --no-auth, or with a broker of its own"
    raise Refused("not_permitted", message, "dir", status=403)
