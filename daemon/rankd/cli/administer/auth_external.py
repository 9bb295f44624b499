"""``rankd auth init``: a site's secret, and what a NATS server of your own needs (``--external``)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import refuse_empty
from rankd.client.asker import LONGEST_USER
from rankd.core.admission.node_check import check_node_name
from rankd.core.errors import Refused, usable

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.identity.site import Account, Site
    from rankd.identity.static_configuration import Member

DIRECTORY = "external"
ACCOUNTS = "accounts"
PRIVATE = 0o700


def add_external(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("for a NATS server of your own")
    group.add_argument(
        "--external",
        action="store_true",
        help="print the accounts for the server's configuration file, and write credentials into auth/external",
    )
    group.add_argument(
        "--operator-key",
        metavar="FILE",
        type=Path,
        help="for a server in operator mode: sign the accounts with the operator's key (a seed, SO…), and print them"
        " for resolver_preload",
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
    from rankd.client.asker import login_name
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
    for option in ("admin", "user", "node", "operator_key"):
        if getattr(arguments, option) and not arguments.external:
            flag = option.replace("_", "-")
            raise Refused("usage", f"--{flag} is for --external; otherwise use rankd auth creds", option)


def run_external(arguments: argparse.Namespace, site: Site, directory: Path) -> int:
    """Print the configuration; say on standard error what was written. ``directory``: that of the site's secret."""
    members, target = _members(arguments), directory / DIRECTORY
    text, accounts = _accounts(site, members, arguments.operator_key)
    print(text, end="")
    with usable(target, "dir"):
        written = _write(site, members, target)
        _write_accounts(accounts, target / ACCOUNTS)
    print(f"rankd: {len(written)} files of credentials are in {target}: {', '.join(written)}", file=sys.stderr)
    print("rankd: test the server: rankd auth check --nats URL " + f"{target}/*.creds", file=sys.stderr)
    return 0


def _accounts(site: Site, members: list[Member], operator_key: Path | None) -> tuple[str, list[Account]]:
    """The text for the server's configuration, and the signed accounts, for a server in operator mode."""
    if operator_key is None:
        from rankd.identity.static_configuration import configuration

        return configuration(site, members), []
    from rankd.identity.operator_configuration import preload, read_operator, signed_accounts

    with usable(operator_key, "operator_key"):
        operator = read_operator(operator_key.read_text(encoding="ascii", errors="replace"))
    accounts = signed_accounts(site, members, operator, time.time())
    return preload(accounts), accounts


def _write_accounts(accounts: list[Account], directory: Path) -> None:
    """Write signed accounts as a resolver of NATS keeps them: a file per account, with its public key as the name."""
    from rankd.identity.credentials import write_private

    if not accounts:
        return
    directory.mkdir(mode=PRIVATE, exist_ok=True)
    for account in accounts:
        write_private(directory / f"{account.public}.jwt", account.token)
    print(f"rankd: {len(accounts)} signed accounts are in {directory}, as files for a resolver", file=sys.stderr)


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
    from rankd.identity.credentials import NOTIFIER_CREDENTIALS, write_private
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
    write_private(directory / NOTIFIER_CREDENTIALS, site.static_notifier(now).text())
    return [*files, NOTIFIER_CREDENTIALS]
