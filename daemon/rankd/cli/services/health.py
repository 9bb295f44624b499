"""``rankd health [SERVICE]``: the exit status is 0 if it is ready, 1 if it is not ready, 3 if it does not answer.

Without SERVICE: intake, prioritizer and scheduler are asked, and the worst status counts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rankd.bus.address import without_secret
from rankd.cli.common.option import add_command, add_place
from rankd.cli.common.place import find
from rankd.cli.common.screen import print_line
from rankd.client.place import Place
from rankd.core.errors import RankdError, Unavailable
from rankd.wire.subject import decode_name, encode_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers
    from rankd.wire.message import Health


AGENT = "agent-"
USER = "user"
"""The role of credentials that reach no service's health."""
SERVICES = ("intake", "prioritizer", "scheduler")


def add_parser(subparsers: Subparsers) -> None:
    """Add ``health``."""
    text = "Whether a service is ready. It checks its database and its bus before it answers."
    parser = add_command(subparsers, "health", run, text)
    which = "the service: intake, prioritizer, scheduler or agent-NODE (default: the first three)"
    parser.add_argument("service", metavar="SERVICE", nargs="?", help=which)
    parser.add_argument(
        "--timeout", type=float, default=2.0, metavar="SECONDS", help="how long to wait for the answer (default: 2)"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_place(parser, broker=True)


def run(arguments: argparse.Namespace) -> int:
    """Ask and print."""
    place = find(arguments)
    services = SERVICES if arguments.service is None else (arguments.service,)
    answers = _ask(services, arguments.timeout, place)
    if arguments.service is not None and isinstance(answers[0], Unavailable):
        raise answers[0]
    if arguments.json:
        from rankd.cli.common.table import print_json

        asked = {"broker": without_secret(place.need_nats()), "chosen": place.reason}
        told = [_told(service, answer) | asked for service, answer in zip(services, answers, strict=True)]
        print_json(told if arguments.service is None else told[0])
    else:
        for service, answer in zip(services, answers, strict=True):
            print_line(_line(service, answer))
        print(place.explained(acts=True))
    return max(_status(answer) for answer in answers)


def _ask(services: Sequence[str], timeout_s: float, place: Place) -> list[Health | Unavailable]:
    """The answer of each service, or the reason why there is none."""
    from rankd.bus.health import ask_health
    from rankd.cli.common.session import credentials_for_agent
    from rankd.client.session import with_bus

    async def ask(bus: Bus, service: str) -> Health | Unavailable:
        try:
            return await ask_health(bus, encode_name(service), timeout_s=timeout_s)
        except Unavailable as error:
            message = f"{service} does not answer within {timeout_s:g} s; is it running at {bus.url}?"
            if bus.role == USER:
                message = f"{service} does not answer users; ask with an administrator's credentials, or `rankd diag`"
            return Unavailable(error.code, message)

    async def action(bus: Bus) -> list[Health | Unavailable]:
        import asyncio

        return list(await asyncio.gather(*(ask(bus, service) for service in services)))

    agent = services[0].removeprefix(AGENT) if services[0].startswith(AGENT) else None
    if agent is not None and (credentials := credentials_for_agent(place, agent)) is not None:
        with suppress(RankdError):  # the broker knows no such node
            return with_bus(place, action, connect_timeout_s=timeout_s, credentials=credentials)
    return with_bus(place, action, connect_timeout_s=timeout_s)


def _told(service: str, answer: Health | Unavailable) -> dict[str, object]:
    if isinstance(answer, Unavailable):
        return {"service": service, "ready": False, "pid": None, "detail": answer.message}
    return {"service": answer.service, "ready": answer.ready, "pid": answer.pid, "detail": answer.detail}


def _line(service: str, answer: Health | Unavailable) -> str:
    if isinstance(answer, Unavailable):
        return f"{service}: {answer.message.removeprefix(f'{service} ')}"
    word = "ready" if answer.ready else "not ready"
    return f"{decode_name(answer.service)}: {word} (pid {answer.pid}) {answer.detail}".rstrip()


def _status(answer: Health | Unavailable) -> int:
    if isinstance(answer, Unavailable):
        return 3
    return 0 if answer.ready else 1
