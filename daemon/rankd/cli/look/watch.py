"""``rankd watch``: prints events of jobs as they happen, from the stream of events."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.duration import shown_time
from rankd.cli.common.instant import parse_time
from rankd.cli.common.option import add_asker, add_command, add_place, job_ids, names
from rankd.cli.common.place import find
from rankd.cli.common.screen import print_line
from rankd.wire.message import JobEvents

if TYPE_CHECKING:
    import argparse

    from nats.aio.msg import Msg

    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers
    from rankd.wire.message import DeadLetter, Transition


def add_parser(subparsers: Subparsers) -> None:
    """Add ``watch``."""
    text = "Print events of jobs as they happen. No event is lost while the broker or rankd is away. Ctrl-C ends."
    parser = add_command(subparsers, "watch", run, text)
    parser.add_argument("job", type=job_ids, nargs="*", metavar="JOB", help="only these jobs: 17, or 17,18, or 17-20")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-u", "--user", type=names, metavar="USERS", help="jobs of these users (default: mine)")
    which.add_argument("--all", action="store_true", help="jobs of all users")
    parser.add_argument(
        "--since", metavar="TIME", help="start with events of this time: 08:00, yesterday, now-1hour (default: now)"
    )
    parser.add_argument("--json", action="store_true", help="print one event per line, as JSON")
    add_place(parser)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print events until interrupted."""
    from rankd.cli.common.session import with_bus

    with_bus(find(arguments), lambda bus: _follow(bus, arguments))
    return 0


async def _follow(bus: Bus, arguments: argparse.Namespace) -> None:
    from rankd.bus.follow import follow

    jobs = frozenset(number for group in arguments.job for number in group)
    since = None if arguments.since is None else parse_time(arguments.since, time.time(), "past")
    async for message in follow(bus, _subjects(arguments), JobEvents, since, passed=_passed):
        for letter in message.refused:
            if not jobs:
                _print(letter, _refused(letter), as_json=arguments.json)
        for event in message.events:
            if not jobs or event.job in jobs:
                _print(event, _line(event), as_json=arguments.json)
        sys.stdout.flush()


def _passed(message: Msg, error: Exception) -> None:
    place = f"message {message.metadata.sequence.stream} of {len(message.data)} bytes on {message.subject}"
    print_line(f"rankd: skipped {place}: it can't be read: {error}", error=True)


def _subjects(arguments: argparse.Namespace) -> list[str]:
    from rankd.cli.common.session import asker
    from rankd.wire.subject import PREFIX, job_event

    if arguments.all:
        return [f"{PREFIX}.event.job.*"]
    return [job_event(user) for user in arguments.user or [asker(arguments).user]]


def _print(event: Transition | DeadLetter, line: str, *, as_json: bool) -> None:
    print_line(msgspec.json.encode(event).decode() if as_json else line)


def _line(event: Transition) -> str:
    cause = f" ({event.cause})" if event.cause else ""
    return f"{shown_time(event.at)} job {event.job} {event.state}: {event.event} by {event.actor}{cause}"


def _refused(letter: DeadLetter) -> str:
    named = f" {letter.message_id}" if letter.message_id else ""
    what = f"submission{named} of {letter.user} refused"
    return f"{shown_time(letter.at)} {what}: {letter.message} (dead letter {letter.id})"
