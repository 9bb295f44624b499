"""``rankd health SERVICE``: 0 if it is ready, 1 if it says that it is not, 3 if it does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.bus.address import without_secret
from rankd.cli.option import add_command, add_place
from rankd.cli.place import Place, find
from rankd.cli.screen import print_line
from rankd.core.errors import Unavailable
from rankd.wire.subject import decode_name, encode_name

if TYPE_CHECKING:
    import argparse

    from rankd.bus.connection import Bus
    from rankd.cli.option import Subparsers
    from rankd.wire.message import Health


def add_parser(subparsers: Subparsers) -> None:
    """Add ``health``."""
    text = "Whether a service is ready: it asks its database and its bus, then answers."
    parser = add_command(subparsers, "health", run, text)
    parser.add_argument("service", metavar="SERVICE", help="intake, prioritizer, scheduler, or agent-NODE")
    parser.add_argument("--timeout", type=float, default=2.0, metavar="SECONDS", help="how long to wait (2)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_place(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask and print."""
    place = find(arguments)
    health = _ask(arguments, place)
    if arguments.json:
        from rankd.cli.table import print_json

        asked = {"broker": without_secret(place.need_nats()), "chosen": place.reason}
        told = {"service": health.service, "ready": health.ready, "pid": health.pid, "detail": health.detail}
        print_json(told | asked)
    else:
        word = "ready" if health.ready else "not ready"
        print_line(f"{decode_name(health.service)}: {word} (pid {health.pid}) {health.detail}".rstrip())
        print(place.explained(acts=True))
    return 0 if health.ready else 1


def _ask(arguments: argparse.Namespace, place: Place) -> Health:
    from rankd.bus.health import ask_health
    from rankd.cli.session import with_bus

    async def action(bus: Bus) -> Health:
        try:
            return await ask_health(bus, encode_name(arguments.service), timeout_s=arguments.timeout)
        except Unavailable as error:
            message = f"{arguments.service} does not answer within {arguments.timeout:g} s; is it running at {bus.url}?"
            raise Unavailable(error.code, message) from error

    return with_bus(place, action, connect_timeout_s=arguments.timeout)
