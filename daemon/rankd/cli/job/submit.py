"""``rankd submit``: one job or many, safe to repeat: each has a key, and the same key is the same job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place, key_value
from rankd.cli.common.place import find
from rankd.cli.job.request import Job, job_of
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers

RETRY_FOR_S = 30.0


def add_parser(subparsers: Subparsers) -> None:
    """Add ``submit``."""
    parser = add_command(subparsers, "submit", run, "Submit a job: rankd submit [option ...] -- COMMAND [argument ...]")
    _add_belonging(parser)
    _add_size(parser)
    _add_conditions(parser)
    _add_running(parser)
    _add_submission(parser)
    add_place(parser)
    add_asker(parser, "--user", "--as")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run, after --")


def _add_belonging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the job belongs to")
    group.add_argument("-J", "--name", "--job-name", help="its name")
    group.add_argument("-A", "--account", help="the account that is charged")
    group.add_argument("-q", "--queue", help="the queue, such as root.a")
    group.add_argument("-p", "--partition", help="the partition")
    group.add_argument("--qos", help="the quality of service")
    group.add_argument("--class", dest="priority_class", metavar="CLASS", help="the priority class")
    group.add_argument("--urgency", metavar="N", help="0 (hold) to 31 (expedite), default 16; over 16 with --admin")
    group.add_argument("--application", metavar="ID", help="the application that it is part of")
    group.add_argument("--comment", help="free text")


def _add_size(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it needs")
    group.add_argument("-N", "--nodes", metavar="N[-M]", help="nodes; N-M starts with as many as are free")
    group.add_argument("-n", "--ntasks", dest="tasks", type=int, metavar="N", help="tasks, spread over the nodes")
    group.add_argument(
        "-c", "--cores", "--cpus-per-task", metavar="N", help="cores per task (one task per node), or 500m"
    )
    group.add_argument("--mem", metavar="SIZE", help="memory per node: 4G (GiB); without a suffix MiB")
    group.add_argument("--mem-per-cpu", metavar="SIZE", help="memory per core")
    group.add_argument("-G", "--gpus", type=int, metavar="N", help="GPUs of the whole job")
    group.add_argument("--gpus-per-node", type=int, metavar="N", help="GPUs per node")
    group.add_argument("--gres", metavar="NAME:N,...", help="other resources per node")
    group.add_argument(
        "-C", "--constraint", dest="constraints", metavar="LABELS", help="nodes' labels: gpu=a100,disk!=hdd"
    )
    group.add_argument("--exclusive", action="store_true", help="whole nodes, shared with nobody")
    group.add_argument("-t", "--time", metavar="LIMIT", help="time limit: minutes, h:m:s, d-h:m:s, 90s")


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("when it may start")
    group.add_argument("-b", "--begin", metavar="TIME", help="not before: now+2hours, 16:30, 2030-01-31T08:00")
    group.add_argument("-d", "--dependency", metavar="LIST", help="after other jobs: afterok:1:2,afterany:3")
    group.add_argument("-H", "--hold", action="store_true", help="held until `rankd release`")
    group.add_argument("-a", "--array", metavar="INDEXES", help="an array of jobs: 0-9")
    group.add_argument(
        "--requeue", action=argparse.BooleanOptionalAction, help="start again if its node is lost (usual)"
    )


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it runs")
    group.add_argument("-D", "--chdir", metavar="DIR", help="where (default: here; with --nats: the agent's)")
    group.add_argument("-i", "--input", dest="stdin", metavar="FILE", help="its standard input")
    group.add_argument("-o", "--output", dest="stdout", metavar="FILE", help="its standard output")
    group.add_argument("-e", "--error", dest="stderr", metavar="FILE", help="its standard error")
    group.add_argument("--export", metavar="LIST", help="environment: NAME, NAME=VALUE, ALL, NONE (default)")
    group.add_argument(
        "--export-env", action="append", type=key_value, default=[], metavar="NAME=VALUE", help="one variable"
    )
    group.add_argument("--wrap", metavar="LINE", help="a line for sh instead of a command")


def _add_submission(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("submitting")
    group.add_argument("--file", metavar="FILE", help="a job or a list of jobs as JSON; - is standard input")
    group.add_argument("--count", type=int, default=1, metavar="N", help="so many copies")
    group.add_argument("--key", help="submitted again with the same key, it is the same job (default: a new one)")
    group.add_argument("--atomic", action="store_true", help="all jobs or none")
    group.add_argument(
        "--retry-for", type=float, default=RETRY_FOR_S, metavar="SECONDS", help="while rankd is away (30)"
    )
    group.add_argument(
        "--enqueue", action="store_true", help="leave it with the broker; rankd takes it up, now or when it is back"
    )
    group.add_argument("--test-only", action="store_true", help="print the request, submit nothing")
    group.add_argument("-W", "--wait", action="store_true", help="wait for the end; exit with the job's status")
    group.add_argument("--json", action="store_true", help="print the answer as JSON")
    group.add_argument("--parsable", action="store_true", help="print the job's number alone")


def run(arguments: argparse.Namespace) -> int:
    """Submit, print the numbers, wait if asked to."""
    jobs = jobs_of(arguments)
    if arguments.test_only:
        from rankd.cli.common.table import print_json

        print_json(jobs if len(jobs) > 1 else jobs[0])
        return 0
    from rankd.cli.common.session import asker
    from rankd.cli.job.delivery import deliver, enqueue

    if arguments.enqueue:
        if arguments.wait or arguments.admin:
            raise Refused("usage", "--enqueue cannot be combined with --wait or --admin", "enqueue")
        return enqueue(find(arguments), asker(arguments), jobs, arguments)
    return deliver(find(arguments), asker(arguments), jobs, arguments)


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """All requests, each with a key of its own."""
    if arguments.count < 1:
        raise Refused("usage", f"--count {arguments.count}: submit at least one", "count")
    if arguments.file:
        if arguments.command or arguments.wrap:
            raise Refused("usage", "give --file or a command, not both", "file")
        jobs = read_jobs(arguments.file) * arguments.count
    else:
        job = job_of(arguments, dict(os.environ), time.time())
        if arguments.chdir or _is_local(arguments):
            job["cwd"] = str(Path(arguments.chdir or ".").absolute())
        jobs = [job] * arguments.count
    return with_keys(jobs, arguments.key)


def _is_local(arguments: argparse.Namespace) -> bool:
    """Whether the jobs will find this folder: a broker that was named may be of other machines."""
    return not find(arguments).by_bus


def read_jobs(name: str) -> list[Job]:
    """A document with one job, a list of jobs, or ``{"jobs": […]}``.

    Raises:
        Refused: ``bad_request``: not readable, or none of these.
    """
    import msgspec

    try:
        text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        document = msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise Refused("bad_request", f"{name}: {error}", "file") from None
    jobs = document.get("jobs", [document]) if isinstance(document, dict) else document
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise Refused("bad_request", f"{name}: expected a job, or a list of jobs", "file")
    return jobs


def with_keys(jobs: list[Job], key: str | None) -> list[Job]:
    """Give every job a key, so that a repeated message makes no second job."""
    import uuid

    stem = key or uuid.uuid4().hex
    if len(jobs) == 1:
        return [{**jobs[0], "key": key or jobs[0].get("key") or stem}]
    own = [job.get("key") for job in jobs]
    distinct = key is None and len(set(own)) == len(own)  # copies of one job must not be taken for the same
    return [{**job, "key": (distinct and job.get("key")) or f"{stem}-{place}"} for place, job in enumerate(jobs)]
