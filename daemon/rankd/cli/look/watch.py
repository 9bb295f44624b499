"""``rankd watch``: prints events of jobs as they happen."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.duration import shown_time
from rankd.cli.common.option import add_asker, add_command, add_jobs, add_place, names
from rankd.cli.common.place import find
from rankd.cli.common.screen import print_line
from rankd.client.instant import parse_time
from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.core.model.id_range import apart
from rankd.wire.message import DeadLetter

if TYPE_CHECKING:
    import argparse

    from nats.aio.msg import Msg

    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers
    from rankd.cli.look.event_follower import Wanted
    from rankd.wire.message import Transition

MOST_ASKED = 10
"""The most names that are looked up before the events are followed."""
FIRST_ANSWER_S = 10.0
"""How long rankd is asked for a named job."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``watch``."""
    text = "Print events of jobs as they happen. No event is lost while the broker or rankd is away. Ctrl-C ends."
    parser = add_command(subparsers, "watch", run, text)
    add_jobs(parser, only=True)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-u", "--user", type=names, metavar="USERS", help="jobs of these users (default: mine; others need --admin)"
    )
    which.add_argument("--all", action="store_true", help="jobs of all users (needs --admin)")
    parser.add_argument(
        "--since", metavar="TIME", help="start with events of this time: 08:00, yesterday, now-1hour (default: now)"
    )
    parser.add_argument("--json", action="store_true", help="print one event per line, as JSON")
    add_place(parser, broker=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print events until interrupted."""
    from rankd.cli.common.session import asker
    from rankd.client.session import with_bus

    wanted, where = _wanted(arguments), asker(arguments).subject("job.show")
    return with_bus(find(arguments), lambda bus: _watch(bus, arguments, wanted, where))


async def _watch(bus: Bus, arguments: argparse.Namespace, wanted: Wanted, where: str) -> int:
    """Follow the events, unless none of the named jobs exists: there would never be one. Returns the exit status."""
    named = apart(wanted.jobs)
    asked = sorted(named.names, key=str)[:MOST_ASKED]
    unknown = [str(name) for name in asked if not await _exists(bus, where, name)]
    if unknown:
        print_line(f"rankd: there is no job {', '.join(unknown)}", error=True)
    if unknown and len(unknown) == len(named.names) and not named.ranges:
        return 1
    await _follow(bus, arguments, wanted)
    return 0


async def _exists(bus: Bus, where: str, name: int | str) -> bool:
    """Whether there is such a job. Of several tasks, whether there is the first one."""
    from rankd.client.session import repeat
    from rankd.wire.encoding import encode
    from rankd.wire.page import JobShow

    parsed = parse_name(name)
    one = f"{parsed.job}_{parsed.indices[0][0]}" if parsed.indices else parsed.job
    payload = encode(JobShow(id=one))
    try:
        await repeat(lambda: bus.request(where, payload, object), time.monotonic() + FIRST_ANSWER_S)
    except Refused as error:
        if error.code != "unknown_job":
            raise
        return False
    return True


async def _follow(bus: Bus, arguments: argparse.Namespace, wanted: Wanted) -> None:
    from rankd.cli.look.event_follower import EventFollower

    async for news in EventFollower(bus, wanted, _skipped).run():
        for one in news:
            _print(one, as_json=arguments.json)
        sys.stdout.flush()


def _skipped(message: Msg, error: Exception) -> None:
    place = f"a message of {len(message.data)} bytes on {message.subject}"
    print_line(f"rankd: skipped {place}: it can't be read: {error}", error=True)


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """What to follow.

    Raises:
        Refused: ``admins_only``: jobs of other users, without ``--admin``.
    """
    from rankd.cli.common.session import asker
    from rankd.cli.look.event_follower import Wanted
    from rankd.core.errors import admins_only
    from rankd.wire.subject import job_event, job_event_pattern

    who = asker(arguments)
    users = None if arguments.all else arguments.user or [who.user]
    others = "all users" if users is None else next((f"'{user}'" for user in users if user != who.user), None)
    if others and not who.admin:
        raise admins_only(f"watching jobs of {others}", who.user, "user")
    return Wanted(
        ask=who.subject("job.events"),
        hints=[job_event_pattern()] if users is None else [job_event(user) for user in dict.fromkeys(users)],
        users=users,
        jobs=frozenset(number for group in arguments.job for number in group),
        since=None if arguments.since is None else parse_time(arguments.since, time.time(), "past"),
    )


def _print(event: Transition | DeadLetter, *, as_json: bool) -> None:
    if as_json:
        print_line(msgspec.json.encode(event).decode())
    else:
        print_line(_refused(event) if isinstance(event, DeadLetter) else _line(event))


def _line(event: Transition) -> str:
    cause = f" ({event.cause})" if event.cause else ""
    via = f" via {event.via}" if event.via else ""
    named = event.job if event.array_job is msgspec.UNSET else f"{event.array_job}_{event.array_task}"
    return f"{shown_time(event.at)} job {named} {event.state}: {event.event} by {event.actor}{via}{cause}"


def _refused(letter: DeadLetter) -> str:
    named = f" {letter.message_id}" if letter.message_id else ""
    what = f"submission{named} of {letter.user} refused"
    if letter.kind == "notification":
        what = f"a notification of {letter.user} was not sent"
    return f"{shown_time(letter.at)} {what}: {letter.message} (dead letter {letter.id})"
