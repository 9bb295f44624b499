"""``rankd retry``: submits ended jobs again, as new jobs."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place, job_names
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.client.channel import Channel
    from rankd.wire.message import JobRetry

RETRY_FOR_S = 30.0
REQUEST_TIMEOUT_S = 30.0

Answer = dict[str, int]


def add_parser(subparsers: Subparsers) -> None:
    """Add ``retry``."""
    parser = add_command(
        subparsers,
        "retry",
        run,
        "Submit ended jobs again, each as a new job. The old ones stay as they are. Script, environment and changes by"
        " `rankd update` come along.",
    )
    parser.add_argument(
        "job",
        type=job_names,
        nargs="+",
        metavar="JOB",
        help="job ids: 17 or 17-20; tasks: 17_[1-5,9]",
    )
    parser.add_argument(
        "--failed", action="store_true", help="only what did not complete; of an array only those tasks"
    )
    parser.add_argument("-H", "--hold", action="store_true", help="hold the new jobs until `rankd release`")
    parser.add_argument("--key", help="a second retry with the same key gives the same job (default: a new key)")
    parser.add_argument("--json", action="store_true", help="print the answers as JSON (a list for several jobs)")
    parser.add_argument("--parsable", action="store_true", help="print the ids alone")
    add_place(parser)
    add_asker(parser)


def requests_of(arguments: argparse.Namespace) -> list[JobRetry]:
    """A request for each job, with a key of its own, so that a repeated message makes no second job.

    Raises:
        Refused: ``usage``: one key is given for several jobs.
    """
    from rankd.wire.job_selection import JobRetry

    names = [name for group in arguments.job for name in group]
    if arguments.key is not None and len(names) > 1:
        raise Refused("usage", "--key is for a single job; name one", "key")
    stem = uuid.uuid4().hex
    return [
        JobRetry(id=name, failed=arguments.failed, held=arguments.hold, key=arguments.key or f"{stem}-{place}")
        for place, name in enumerate(names)
    ]


def run(arguments: argparse.Namespace) -> int:
    """Send the requests, and print the new ids. Refusals go to standard error, and the status is 1 then."""
    from rankd.cli.common.channel import opened
    from rankd.cli.common.output import telling
    from rankd.cli.common.screen import print_line
    from rankd.cli.common.table import print_json

    answers: list[Answer] = []
    wanted = requests_of(arguments)
    with opened(arguments) as channel:
        for one in wanted:
            try:
                answers.append(_ask(channel, one))
            except Refused as error:
                if len(wanted) == 1:
                    raise
                print_line(f"rankd: {one.id}: {error.message}", error=True)
                continue
            with telling(f"job {answers[-1]['id']} was submitted"):
                _report(answers[-1], arguments)
    if arguments.json:
        print_json(answers if len(wanted) > 1 else answers[0])
    return 0 if len(answers) == len(wanted) else 1


def _ask(channel: Channel, wanted: JobRetry) -> Answer:
    from rankd.client.channel import repeated
    from rankd.wire.codec import encode

    def send(left_s: float) -> Answer:
        return channel.request("job.retry", encode(wanted), Answer, timeout_s=min(REQUEST_TIMEOUT_S, left_s))

    return repeated(send, time.monotonic() + RETRY_FOR_S)


def _report(answer: Answer, arguments: argparse.Namespace) -> None:
    if arguments.parsable:
        print(answer["id"])
    elif not arguments.json:
        number = answer.get("tasks")
        tasks = "" if number is None else f" ({number} task{'' if number == 1 else 's'})"
        print(f"Submitted batch job {answer['id']}{tasks}")
