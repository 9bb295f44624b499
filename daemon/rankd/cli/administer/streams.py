"""``rankd streams``: compare the broker's streams with configuration and database, and make them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.screen import print_line

if TYPE_CHECKING:
    import argparse

    import msgspec

    from rankd.cli.common.option import Subparsers
    from rankd.wire.diag import StreamDiag

T = TypeVar("T")

ANSWER_S = 60.0


def add_parser(subparsers: Subparsers) -> None:
    """Add ``streams``."""
    parser = add_command(subparsers, "streams", run, "The broker's streams (administrators only).")
    commands = parser.add_subparsers(dest="streams_command", required=True, metavar="check|rebuild")
    checking = commands.add_parser(
        "check",
        help="compare the streams with configuration and database",
        description="List the streams, and where they and their consumers differ from what the configuration and the"
        " database say. Nothing is changed. The exit status is 1 if anything differs.",
        allow_abbrev=False,
    )
    checking.add_argument("--json", action="store_true", help="print JSON")
    checking.set_defaults(run=run_check)
    rebuilding = commands.add_parser(
        "rebuild",
        help="make every stream anew from the database",
        description="Delete every stream, and make it anew with the copies that the configuration asks for. Events of"
        " the last 7 days and waiting dead letters are published again, so that subscribers may get an event twice."
        " Jobs are not touched. Enqueued submissions that no intake has taken are only in their stream; as long as"
        " there are any, this is refused.",
        allow_abbrev=False,
    )
    rebuilding.add_argument(
        "--lose-enqueued", action="store_true", help="also if enqueued submissions wait, or may wait, in the stream"
    )
    rebuilding.add_argument("--json", action="store_true", help="print JSON")
    rebuilding.set_defaults(run=run_rebuild)
    for command in (checking, rebuilding):
        add_place(command)
        add_asker(command)


def run(arguments: argparse.Namespace) -> int:
    """Never reached: a command is required."""
    raise AssertionError(arguments)


def _ask(arguments: argparse.Namespace, verb: str, message: msgspec.Struct, kind: type[T]) -> T:
    """Ask; brokers without a leader for their streams take their time to answer."""
    from rankd.cli.common.channel import opened
    from rankd.wire.encoding import encode

    with opened(arguments) as channel:
        return channel.request(verb, encode(message), kind, timeout_s=ANSWER_S)


def run_check(arguments: argparse.Namespace) -> int:
    """Print the streams and what is wrong with them."""
    from rankd.cli.common.table import print_json
    from rankd.wire.stream import StreamsAsked, StreamsChecked

    found = _ask(arguments, "stream.check", StreamsAsked(), StreamsChecked)
    if arguments.json:
        print_json(found)
    else:
        for stream in found.streams:
            print_line(_line(stream))
        for problem in found.problems:
            print_line(f"problem: {problem}")
        if not found.problems:
            print_line("the streams are as the configuration and the database say")
    return 1 if found.problems else 0


def _line(of: StreamDiag) -> str:
    led = "no leader" if of.leader is None else f"led by {of.leader}"
    return f"{of.name}: {led}, {of.copies} of {of.wanted} copies, {of.messages or 0} messages"


def run_rebuild(arguments: argparse.Namespace) -> int:
    """Ask for it, and say what was lost."""
    from rankd.cli.common.table import print_json
    from rankd.wire.stream import RebuildAsked, Rebuilt

    done = _ask(arguments, "stream.rebuild", RebuildAsked(lose_enqueued=arguments.lose_enqueued), Rebuilt)
    if arguments.json:
        print_json(done)
        return 0
    print_line(f"the streams are new; {done.events} events and {done.letters} dead letters are published again")
    if done.lost != 0:
        which = "an unknown number of" if done.lost is None else str(done.lost)
        print_line(f"lost: {which} enqueued submissions that no intake had taken; their publishers have to repeat them")
    return 0
