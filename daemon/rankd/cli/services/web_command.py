"""``rankd web``: the page."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import tls_files
from rankd.cli.services.service_option import add_service, need, port, serve_as
from rankd.client.asker import login_name
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    web = add_service(subparsers, "web", run, "Show the queue in browsers, live, and why each job is where it is.")
    web.add_argument(
        "--db",
        metavar="URL",
        default=os.environ.get("RANKD_DB"),
        help="the database: a file, or postgresql://USER@HOST/NAME (default: $RANKD_DB; without one, the page asks over"
        " the bus)",
    )
    web.add_argument(
        "--gateway-creds",
        metavar="FILE",
        type=Path,
        help="credentials with which the page asks for its users (auth/web-gateway.creds of `rankd up`)",
    )
    web.add_argument(
        "--state", metavar="DIR", type=Path, help="private directory of its key and its link (auth/ of `rankd up`)"
    )
    owner = "the user whom the link signs in (default: $RANKD_USER, then who runs this)"
    web.add_argument("--owner", metavar="USER", help=owner)
    web.add_argument(
        "--listen", metavar="ADDRESS", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    web.add_argument(
        "--port", type=port, default=0, help="port to listen on (default: 0, the last one that it had, or any free one)"
    )
    web.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="another name under which browsers reach the page, such as that of a proxy; may be repeated",
    )
    web.add_argument("--cert", metavar="FILE", type=Path, help="certificate of the page (PEM), for https")
    web.add_argument("--key", metavar="FILE", type=Path, help="its private key")
    web.add_argument(
        "--read-only",
        action="store_true",
        help="for a screen on the wall: nothing can be changed, and everybody who reaches the page sees what a user"
        " without jobs sees",
    )
    web.add_argument("--link", action="store_true", help="print a link that signs in once, and end")
    web.add_argument(
        "--dir", metavar="DIR", type=Path, help="with --link: the directory of `rankd up` (default: $RANKD_DIR, .rankd)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped, or print the link."""
    if arguments.link:
        return _print_link(arguments)
    need(arguments, "nats")
    from rankd.cli.run.up_page import is_installed

    if arguments.state is None:
        raise Refused("usage", "--state DIR is needed: a private directory, such as auth/ of `rankd up`", "state")
    if not is_installed():
        raise Refused("not_installed", "the page needs more packages: pip install 'rankd[web]'")
    _check_address(arguments)
    from rankd.services.web.listener import Address
    from rankd.services.web.service import WebOptions
    from rankd.services.web.service import run as serve

    options = WebOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        gateway_creds=arguments.gateway_creds,
        tls=tls_files(arguments),
        db=arguments.db or None,
        state=arguments.state,
        owner=arguments.owner or login_name(),
        address=Address(host=arguments.listen, port=arguments.port, cert=arguments.cert, key=arguments.key),
        hosts=tuple(arguments.host),
        is_read_only=arguments.read_only,
    )
    return serve_as(arguments, "web", lambda stop, exported: serve(options, stop, exported=exported))


def _check_address(arguments: argparse.Namespace) -> None:
    """Check that nobody between the machines can read the cookies.

    Raises:
        Refused: ``usage``.
    """
    from rankd.services.up.address import is_loopback

    if (arguments.cert is None) != (arguments.key is None):
        raise Refused("usage", "--cert and --key belong together", "cert")
    if not (is_loopback(arguments.listen) or arguments.cert or arguments.read_only or arguments.host):
        message = f"at {arguments.listen}, others could read what browsers send: give --cert and --key, or let a proxy"
        raise Refused("usage", f"{message} encrypt and name it with --host", "listen")


def _print_link(arguments: argparse.Namespace) -> int:
    from rankd.services.web.sign_in_link import read_link

    state = arguments.state or (arguments.dir or Path(os.environ.get("RANKD_DIR") or ".rankd")) / "auth"
    link = read_link(state)
    if link is None:
        raise Refused("no_page", f"there is no link in {state}; does the page run, and is this its directory?")
    print(link)
    return 0
