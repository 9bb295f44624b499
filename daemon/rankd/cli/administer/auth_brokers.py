"""``rankd auth brokers``: configurations of the brokers of a cluster, with the site's accounts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import refuse_empty
from rankd.core.errors import usable

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.services.up.broker_cluster import Member

PRIVATE = 0o700


def add_brokers(commands: Subparsers) -> None:
    """Add ``auth brokers``."""
    parser = commands.add_parser(
        "brokers",
        help="write what the brokers of a cluster need",
        description="Write a directory for each broker of a cluster: its configuration with the accounts of the site,"
        " and its certificate. Makes the site if there is none. Copy each directory to its machine, and start"
        " nats-server with it. It holds the broker's key: pass it on in private.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--dir",
        default=os.environ.get("RANKD_DIR") or ".rankd",
        help="the directory with the site's secret (default: $RANKD_DIR, then .rankd)",
    )
    parser.add_argument(
        "--broker",
        action="append",
        required=True,
        metavar="NAME=HOST",
        help="a broker, and the host under which others reach it: 3 or 5 of them. NAME=HOST:PORT:ROUTE_PORT for other"
        " ports than 4222 (clients) and 6222 (brokers)",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("brokers"), help="where to write (default: brokers)"
    )
    parser.add_argument(
        "--at",
        metavar="DIR",
        type=Path,
        help="where each broker's directory will be on its machine (default: where it is written)",
    )
    parser.set_defaults(run=run_brokers)


def run_brokers(arguments: argparse.Namespace) -> int:
    """Write the directories."""
    from rankd.client.asker import login_name
    from rankd.identity.authority import issue
    from rankd.identity.credentials import write_private
    from rankd.identity.site import read_site
    from rankd.services.up.broker import store_accounts
    from rankd.services.up.broker_cluster import (
        CA,
        CERTIFICATE,
        CONFIGURATION,
        KEY,
        check_members,
        configuration,
        read_member,
    )
    from rankd.services.up.command import auth_directory
    from rankd.services.up.trust import establish_cluster

    refuse_empty(arguments, "dir", "out", "at")
    members = [read_member(text) for text in arguments.broker]
    check_members(members)
    now, directory = time.time(), Path(arguments.dir)
    with usable(directory, "dir"):
        trust = establish_cluster(directory, login_name(), now)
        seed = read_site(auth_directory(directory)).authority_seed()
    with usable(arguments.out, "out"):
        for member in members:
            own = (arguments.out / member.name).absolute()
            own.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            issued = issue(seed, [member.host.strip("[]")], now)
            text = configuration(member, members, trust, arguments.at or own)
            files = ((CONFIGURATION, text), (CERTIFICATE, issued.certificate), (KEY, issued.key), (CA, issued.ca))
            for name, content in files:
                write_private(own / name, content)
            store_accounts(trust, own / "accounts")
    _say(members, arguments.out, auth_directory(directory))
    return 0


def _say(members: list[Member], out: Path, auth: Path) -> None:
    for member in members:
        print(f"{out / member.name}: for {member.host}; there: nats-server -c server.conf")
    print(f"clients: --nats {','.join(member.url for member in members)} --creds {auth}/…")
