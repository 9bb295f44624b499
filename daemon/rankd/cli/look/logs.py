"""``rankd logs``: prints what a job writes, from any host that reaches the broker."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place, job_name
from rankd.cli.common.place import find
from rankd.core.near_name import cut

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add ``logs``."""
    text = "Print what a job writes, from the start, while it runs and after it ended, from any host. Ctrl-C ends."
    parser = add_command(subparsers, "logs", run, text)
    parser.add_argument("job", type=job_name, metavar="JOB", help="id of the job, or of a task: 17_3")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job has ended, and exit with its status"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--stderr", action="store_true", help="print what it wrote to standard error")
    which.add_argument("--both", action="store_true", help="print both; standard error to standard error")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("-n", "--lines", type=_count, metavar="LINES", help="print the last lines only")
    part.add_argument("--bytes", type=_count, metavar="N", help="print the last N bytes only")
    parser.add_argument(
        "--node", metavar="NODE", help="one of the job's nodes (default: all; with several, each line has its node)"
    )
    parser.add_argument("--attempt", type=_number, metavar="N", help="which attempt, from 1 (default: the last one)")
    add_place(parser, broker=True)
    add_asker(parser)


def _count(text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"'{cut(text)}' is not a number; write a whole number of at least {least}")
    return int(text)


def _number(text: str) -> int:
    return _count(text, least=1)


def run(arguments: argparse.Namespace) -> int:
    """Print it. Returns 0, or the job's status if it was followed to its end."""
    from rankd.cli.common.session import asker
    from rankd.cli.look.log_printer import LogPrinter
    from rankd.client.session import with_bus

    who = asker(arguments)
    return with_bus(find(arguments), lambda bus: LogPrinter(bus, who, arguments).run())
