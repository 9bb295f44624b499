"""``rankd retry``: submits ended jobs again, as new jobs."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from rankd.cli.common.option import add_asker, add_command, add_jobs, add_place
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.cli.jobs.selection import named
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.client.channel import Channel
    from rankd.wire.message import JobRetry

RETRY_FOR_S = 30.0
REQUEST_TIMEOUT_S = 30.0
MOST_IN_RANGE = 10_000
"""Each job is a request of its own."""

Answer = dict[str, Any]


def add_parser(subparsers: Subparsers) -> None:
    """Add ``retry``."""
    parser = add_command(
        subparsers,
        "retry",
        run,
        "Submit ended jobs again, each as a new job. The old ones stay as they are. Script, environment and changes by"
        " `rankd update` come along.",
    )
    add_jobs(parser, several="+")
    parser.add_argument(
        "--failed", action="store_true", help="only what did not complete; of an array only those tasks"
    )
    parser.add_argument("-H", "--hold", action="store_true", help="hold the new jobs until `rankd release`")
    parser.add_argument("--key", help="a second retry with the same key gives the same job (default: a new key)")
    parser.add_argument("--json", action="store_true", help="print the answers as JSON (a list for several jobs)")
    parser.add_argument("--parsable", action="store_true", help="print the ids alone")
    add_place(parser)
    add_asker(parser)


def requests_of(arguments: argparse.Namespace, names: Sequence[int | str]) -> list[JobRetry]:
    """A request for each job, with a key of its own, so that a repeated message makes no second job.

    Raises:
        Refused: ``usage``: one key is given for several jobs.
    """
    from rankd.wire.job_selection import JobRetry

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
    from rankd.cli.common.table import print_json
    from rankd.core.model.id_range import apart, written_range

    answers: list[Answer] = []
    given = apart(name for group in arguments.job for name in group)
    with opened(arguments) as channel:
        found = {ids: jobs_in(channel, arguments, written_range(ids)) for ids in given.ranges}
        names = together([*given.names, *(job for jobs in found.values() for job in jobs)])
        wanted = requests_of(arguments, names)
        if len(wanted) == 1 and not found:
            answers = [_ask(channel, wanted[0])]
            _report(answers[0], arguments)
            failures = 0
        else:
            failures = _retry_all(channel, arguments, wanted, answers, passed_over=set(names) - set(given.names))
    for ids in (ids for ids in found if not found[ids]):
        print_line(f"rankd: there is no job that you may submit again in {written_range(ids)}", error=True)
    if found and names and not (answers or failures):
        print_line("rankd: every job has completed; leave out --failed to submit them again anyway", error=True)
    if arguments.json:
        print_json(answers if found or len(wanted) > 1 else answers[0])
    return 1 if failures or not answers or not all(found.values()) else 0


def together(names: Iterable[int | str]) -> list[int | str]:
    """The names, each once; tasks of the same array are one name, so that they become one array.

    >>> together([17, "5_4", "6_2", "5_1", 17])
    [17, '5_[1,4]', '6_2']
    """
    from rankd.core.model.array import JobName, parse_name
    from rankd.core.model.index_set import union

    found: dict[int | str, int | str] = {}
    for name in names:
        parsed = parse_name(name) if isinstance(name, str) else None
        if parsed is None or not parsed.indices:
            found[name] = name
            continue
        key = f"tasks of {parsed.job}"
        known = parse_name(found[key]).indices if key in found else ()
        found[key] = str(JobName(parsed.job, union(known, parsed.indices)))
    return list(found.values())


def _retry_all(
    channel: Channel,
    arguments: argparse.Namespace,
    wanted: Sequence[JobRetry],
    answers: list[Answer],
    passed_over: Collection[int | str],
) -> int:
    """Send these requests, collect the answers, and print the refusals; returns the number of these.

    ``passed_over``: jobs of ranges. Those of them that have completed are no failures of ``--failed``.
    """
    failures = 0
    for one in wanted:
        try:
            answers.append(_ask(channel, one))
        except Refused as error:
            if error.code == "nothing_to_retry" and one.id in passed_over:
                continue
            print_line(f"rankd: {named(one.id, error.message)}", error=True)
            failures += 1
            continue
        _report(answers[-1], arguments)
    return failures


def jobs_in(channel: Channel, arguments: argparse.Namespace, ids: str) -> list[int]:
    """The jobs and arrays in a range of ids, ascending: the asker's own ones, or with ``--admin`` those of all users.

    Raises:
        Refused: ``too_many``.
    """
    from rankd.cli.common.session import asker
    from rankd.client.channel import LARGEST_PAGE, pages

    who = asker(arguments)
    request: dict[str, object] = {"ids": [ids], "tasks": False, "limit": LARGEST_PAGE}
    if not who.admin:
        request["users"] = [who.user]
    rows, _ = pages(channel, "job.list", "jobs", request, MOST_IN_RANGE + 1)
    if len(rows) > MOST_IN_RANGE:
        raise Refused("too_many", f"more than {MOST_IN_RANGE:,} jobs are in {ids}; name fewer", "job")
    return sorted(row["id"] for row in rows)


def _ask(channel: Channel, wanted: JobRetry) -> Answer:
    from rankd.client.channel import repeated
    from rankd.wire.encoding import encode

    def send(left_s: float) -> Answer:
        return channel.request("job.retry", encode(wanted), Answer, timeout_s=min(REQUEST_TIMEOUT_S, left_s))

    return repeated(send, time.monotonic() + RETRY_FOR_S)


def _report(answer: Answer, arguments: argparse.Namespace) -> None:
    with telling(f"job {answer['id']} was submitted"):
        if arguments.parsable:
            print(answer["id"])
        elif not arguments.json:
            number = answer.get("tasks")
            tasks = "" if number is None else f" ({number} task{'' if number == 1 else 's'})"
            print(f"Submitted batch job {answer['id']}{tasks}")
        for line in (answer.get("warning") or "").splitlines():
            print_line(f"rankd: {line}", error=True)
