"""Options of ``rankd up`` for encrypted connections, and what they mean together."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_tls, tls_files
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.bus.tls_files import TlsFiles


def add_encryption(parser: argparse.ArgumentParser) -> None:
    """Options for encrypted connections."""
    parser.add_argument(
        "--tls",
        action=argparse.BooleanOptionalAction,
        help="encrypt the connections to the embedded broker, with a certificate of a CA that rankd makes (default:"
        " only with --listen on an address other than loopback)",
    )
    parser.add_argument(
        "--tls-name",
        action="append",
        default=[],
        metavar="NAME",
        help="another name or address by which other machines reach the broker, for its certificate; may be repeated",
    )
    add_tls(
        parser,
        cert="certificate of the embedded broker in place of the one that rankd makes, with those that lead to its CA;"
        " with --nats: the one to show to a broker that wants one of its clients (default: $RANKD_TLS_CERT)",
    )


def check_encryption(arguments: argparse.Namespace) -> None:
    """Check the options for encrypted connections.

    Raises:
        Refused: ``usage``.
    """
    tls = tls_of(arguments)
    if arguments.nats and (arguments.tls is not None or arguments.tls_name):
        message = "--tls and --tls-name are for the embedded broker; with --nats, write tls:// to demand encryption"
        raise Refused("usage", message, "tls")
    if tls.key is not None and tls.cert is None:
        raise Refused("usage", "--tls-key needs --tls-cert FILE, the certificate that belongs to the key", "tls_cert")
    if arguments.nats:
        return
    if arguments.tls is False and (tls.cert or arguments.tls_name):
        raise Refused("usage", "--no-tls can't be used with a certificate; leave out one of them", "tls")
    if arguments.tls_name and tls.cert:
        message = "--tls-name is for the certificate that rankd makes; the one in --tls-cert has its own names"
        raise Refused("usage", message, "tls_name")
    if arguments.no_auth and broker_encrypts(arguments):
        message = "--no-auth is for trials on loopback, without encryption; leave out --tls and --tls-cert"
        raise Refused("usage", message, "no_auth")


def tls_of(arguments: argparse.Namespace) -> TlsFiles:
    """Files for encryption. What the environment names is for a broker that is named, not for one that starts here."""
    return tls_files(arguments, os.environ if arguments.nats else {})


def broker_encrypts(arguments: argparse.Namespace) -> bool:
    """Whether the embedded broker encrypts its connections."""
    from rankd.services.up.address import is_loopback

    if arguments.nats or arguments.tls is not None:
        return bool(arguments.tls)
    is_named = arguments.tls_cert or arguments.tls_name
    return bool(is_named or (arguments.listen and not is_loopback(arguments.listen)))
