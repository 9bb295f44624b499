"""``rankd auth init``: a site's secret, and what a NATS server of your own needs (``--external``)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import refuse_empty
from rankd.cli.common.session import LONGEST_USER
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Refused, usable

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.identity.site import Site
    from rankd.identity.static_configuration import Member

DIRECTORY = "external"
PRIVATE = 0o700


def add_external(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("for a NATS server of your own")
    group.add_argument(
        "--external",
        action="store_true",
        help="print the accounts for the server's configuration file, and write credentials into auth/external",
    )
    for option, text in (("admin", "an administrator"), ("user", "a user"), ("node", "a node")):
        group.add_argument(
            f"--{option}", action="append", default=[], metavar="NAME", help=f"with an account for {text}; repeated"
        )


def add_init(commands: Subparsers) -> None:
    """Add ``auth init``."""
    init = commands.add_parser(
        "init",
        help="set a site up without starting it",
        description="Make a site's secret, from which all keys come. What is there already stays as it is. `rankd up`"
        " does so, too; with --external, a NATS server of your own can take its place.",
        allow_abbrev=False,
    )
    init.add_argument(
        "--dir",
        default=os.environ.get("RANKD_DIR") or ".rankd",
        help="directory for everything that rankd stores (default: $RANKD_DIR, then .rankd)",
    )
    add_external(init)
    init.set_defaults(run=run_init)


def run_init(arguments: argparse.Namespace) -> int:
    """Make what is missing."""
    from rankd.cli.common.session import login_name
    from rankd.identity.site import open_site
    from rankd.services.up.command import auth_directory
    from rankd.services.up.trust import initialize

    refuse_empty(arguments, "dir")
    refuse_without_external(arguments)
    directory = auth_directory(Path(arguments.dir))
    with usable(directory, "dir"):
        directory.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        directory.mkdir(mode=PRIVATE, exist_ok=True)
        if arguments.external:
            return run_external(arguments, open_site(directory), directory)
        owner, is_new = initialize(Path(arguments.dir), login_name(), time.time())
    what = "the secret of a new site" if is_new else "the site's secret is there already"
    print(f"{directory}: {what}, with administrator '{owner}'")
    print("next: rankd auth user add, rankd auth invite, rankd node enrol, rankd up, or rankd auth init --external")
    return 0


def refuse_without_external(arguments: argparse.Namespace) -> None:
    """Refuse names where they would have no effect.

    Raises:
        Refused: ``usage``.
    """
    for option in ("admin", "user", "node"):
        if getattr(arguments, option) and not arguments.external:
            raise Refused("usage", f"--{option} is for --external; otherwise use rankd auth creds", option)


def run_external(arguments: argparse.Namespace, site: Site, directory: Path) -> int:
    """Print the configuration; say on standard error what was written. ``directory``: that of the site's secret."""
    from rankd.identity.static_configuration import configuration

    members = _members(arguments)
    print(configuration(site, members), end="")
    target = directory / DIRECTORY
    with usable(target, "dir"):
        written = _write(site, members, target)
    print(f"rankd: {len(written)} files of credentials are in {target}: {', '.join(written)}", file=sys.stderr)
    print("rankd: test the server: rankd auth check --nats URL " + f"{target}/*.creds", file=sys.stderr)
    return 0


def _members(arguments: argparse.Namespace) -> list[Member]:
    """Who was named.

    Raises:
        Refused: ``bad_user``, ``bad_name``: a name can't be one; ``usage``: one is a user and an administrator.
    """
    from rankd.identity.site import Role
    from rankd.identity.static_configuration import Member

    for node in arguments.node:
        check_node_name(node)
    for user in (*arguments.admin, *arguments.user):
        if not 0 < len(user) <= LONGEST_USER or not user.isprintable():
            message = f"the name of a user has to have 1 to {LONGEST_USER} printable characters"
            raise Refused("bad_user", message, "user")
    if both := set(arguments.admin) & set(arguments.user):
        raise Refused("usage", f"'{min(both)}' has one account: as an administrator, or as a user", "user")
    named = ((Role.ADMIN, arguments.admin), (Role.USER, arguments.user), (Role.NODE, arguments.node))
    return [Member(role, name) for role, names in named for name in dict.fromkeys(names)]


def _write(site: Site, members: list[Member], directory: Path) -> list[str]:
    """Write the credentials of the services and of each member; returns the names of the files."""
    from rankd.identity.credentials import write_private
    from rankd.identity.site import Role
    from rankd.wire.subject import encode_name

    directory.mkdir(mode=PRIVATE, exist_ok=True)
    now = time.time()
    files = {"services.creds": (Role.SERVICES, "")}
    for role, name in members:
        kind = "node" if role is Role.NODE else "user"
        files[f"{kind}-{encode_name(name)}.creds"] = (role, name)
    for file, (role, name) in files.items():
        write_private(directory / file, site.static_credentials(role, name, now).text())
    return list(files)
