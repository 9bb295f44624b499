"""``rankd update``: change waiting jobs (scontrol update)."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rankd.cli.option import add_asker, add_command, add_place, job_ids
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.cli.option import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(subparsers, "update", run, "Change jobs that wait. What is not named stays.")
    parser.add_argument("job", type=job_ids, nargs="+", metavar="JOB", help="17, or 17,18, or 17-20")
    parser.add_argument("--urgency", type=int, metavar="0..31", help="0 holds; over 16 for administrators")
    parser.add_argument("-q", "--queue")
    parser.add_argument("--qos")
    parser.add_argument("-A", "--account")
    parser.add_argument("-t", "--time", metavar="LIMIT", help="minutes, h:m:s, d-h:m:s")
    parser.add_argument("-J", "--name")
    parser.add_argument("--comment")
    parser.add_argument("--fix-priority", type=int, metavar="N", help="administrators: whatever its factors say")
    parser.add_argument("--unfix", action="store_true", help="administrators: let its factors count again")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_place(parser)
    add_asker(parser)


def fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is to change.

    Raises:
        Refused: ``usage``: a limit that can't be read, or both of --fix-priority and --unfix.
    """
    from rankd.cli.duration import parse_duration

    if arguments.unfix and arguments.fix_priority is not None:
        raise Refused("usage", "give --fix-priority or --unfix, not both", "fix_priority")
    named = {name: getattr(arguments, name) for name in ("urgency", "queue", "qos", "account", "name", "comment")}
    changed = {name: value for name, value in named.items() if value is not None}
    if arguments.time is not None:
        changed["time_limit_s"] = parse_duration(arguments.time)
    if arguments.unfix or arguments.fix_priority is not None:
        changed["fixed_priority"] = arguments.fix_priority
    return changed


def run(arguments: argparse.Namespace) -> int:
    """Ask, and say what could not be done."""
    from rankd.cli.session import ask
    from rankd.wire.job_update import JobUpdate
    from rankd.wire.message import SelectionReply

    ids = [number for group in arguments.job for number in group]
    reply = ask(arguments, "job.update", JobUpdate(ids=ids, **fields(arguments)), SelectionReply)
    if arguments.json:
        from rankd.cli.table import print_json

        print_json(reply)
    for failed in reply.failed:
        print(f"rankd: {failed.message}", file=sys.stderr)
    return 1 if reply.failed else 0
