"""``rankd submit``: submits one job or many. Each has a key, so that a repeated request makes no second job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.place import find
from rankd.client.batch.fill import Filled, blamed, fill, job_or_errors
from rankd.client.batch.option import add_job_options
from rankd.client.batch.request import Job
from rankd.client.key import with_keys
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.client.batch.script import Script

RETRY_FOR_S = 30.0
MOST_JOBS = 5_000_000
"""Of one command: as many as may wait at a site by default (``admission.max_pending``)."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``submit``."""
    parser = add_command(
        subparsers,
        "submit",
        run,
        "Submit a job: rankd submit [option ...] SCRIPT [argument ...], or rankd submit [option ...] -- COMMAND"
        " [argument ...]. Options may also be given by variables (RANKD_SUBMIT_QOS, or sbatch's own SBATCH_QOS) and by"
        " lines #RANKD and #SBATCH at the beginning of the script; the command line counts first, then variables, then"
        " the script.",
    )
    add_job_options(parser)
    parser.add_argument(
        "--forecast",
        action="store_true",
        help="also print the rank, when the job will start, and what limits it; waits up to 15 s for a forecast",
    )
    add_place(parser)
    add_asker(parser, "--user", "--as")
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT | -- COMMAND",
        help="a script that begins with #!, or - for standard input, and its arguments; or -- and a command",
    )


def run(arguments: argparse.Namespace) -> int:
    """Submit, print the ids, and wait if ``--wait`` is given."""
    jobs = jobs_of(arguments)
    if arguments.print_request:
        from rankd.cli.common.table import print_json

        if arguments.asker:
            jobs = [{**job, "user": arguments.asker} for job in jobs]
        print_json(jobs if len(jobs) > 1 else jobs[0])
        return 0
    from rankd.cli.jobs.delivery import deliver, enqueue

    if arguments.enqueue and not arguments.test_only:
        from rankd.cli.common.session import asker

        if arguments.wait or arguments.admin:
            raise Refused("usage", "--enqueue cannot be combined with --wait or --admin", "enqueue")
        return enqueue(find(arguments), asker(arguments), jobs, arguments)
    try:
        if arguments.test_only:
            from rankd.cli.jobs.trial import try_out

            return try_out(jobs, arguments)
        return deliver(jobs, arguments)
    except Refused as error:
        told = _in_options(blamed(error, arguments.sources), arguments)
        if arguments.test_only and arguments.json:
            from rankd.cli.jobs.trial import print_refusal

            return print_refusal(told)
        raise told from None


def _in_options(error: Refused, arguments: argparse.Namespace) -> Refused:
    """The error in the words that were typed: fields of a file, else options."""
    if arguments.file:
        return error
    from rankd.client.option_text import with_options

    return Refused(error.code, with_options(error.message), error.field, error.status)


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """All requests, each with a key of its own. Fills in the options that variables and the script give."""
    environment = dict(os.environ)
    script = _script_of(arguments)
    filled = _fill(arguments, script, environment)
    arguments.sources = filled.where
    _check_count(arguments.count, 1)
    if arguments.file:
        if arguments.command:
            raise Refused("usage", "give --file or a command, not both", "file")
        jobs = read_jobs(arguments.file)
        _check_count(arguments.count, len(jobs))
        jobs *= arguments.count
        if arguments.notify_if_allowed:
            jobs = [_if_allowed(job) for job in jobs]
    else:
        job = job_or_errors(arguments, environment, time.time(), script, filled)
        if arguments.chdir or script is not None or _is_local(arguments):
            job["cwd"] = str(Path(arguments.chdir or ".").absolute())
        if arguments.slurm_env:
            from rankd.client.batch.slurm_environment import submission_variables

            own = submission_variables(arguments, job, str(Path.cwd()), os.uname().nodename)
            job["env"] = own | job.get("env", {})
        jobs = [job] * arguments.count
    return with_keys(jobs, arguments.key)


def _check_count(count: int, jobs: int) -> None:
    """Check how many jobs ``--count`` makes, before they take memory. ``jobs``: how many it repeats.

    Raises:
        Refused: ``usage``.
    """
    if count < 1:
        raise Refused("usage", f"--count {count}: submit at least one", "count")
    if count * jobs > MOST_JOBS:
        each = f" of {jobs:,} jobs" if jobs > 1 else ""
        message = (
            f"--count {count}{each}: one command submits at most {MOST_JOBS:,} jobs; give at most"
            f" --count {MOST_JOBS // jobs}, or one array (-a 1-N), which is a single record"
        )
        raise Refused("usage", message, "count")


def _if_allowed(job: Job) -> Job:
    """The job of a document, which leaves out notifications that the site does not allow."""
    wanted = job.get("notify")
    return job | {"notify": wanted | {"if_allowed": True}} if isinstance(wanted, dict) else job


def _script_of(arguments: argparse.Namespace) -> Script | None:
    """The script, if one is submitted: the line of ``--wrap``, or the file that the first word names."""
    is_file = arguments.command[:1] not in ([], ["--"])
    if arguments.wrap is None and not is_file:
        return None
    from rankd.client.batch.script import read_script, wrapped

    if is_file:
        for option in ("file", "wrap"):
            if getattr(arguments, option) is not None:
                raise Refused("usage", f"give --{option} or a script, not both; a command stands after --", option)
        return read_script(arguments.command)
    if arguments.command[1:] or arguments.file is not None:
        raise Refused("usage", "give --wrap, a command or --file, not two of them", "wrap")
    return wrapped(arguments.wrap)


def _fill(arguments: argparse.Namespace, script: Script | None, environment: dict[str, str]) -> Filled:
    """Fill in what the command line leaves open, and warn of what has another effect than it seems."""
    filled = fill(arguments, script, environment, _warn)
    if script is not None:
        from rankd.client.batch.script import missing_interpreter

        if (missing := missing_interpreter(script.text)) is not None:
            _warn(missing)
        from rankd.core.submission.step_command import STEP, remark, step_calls

        for call in step_calls(script.text):
            _warn(remark(call._replace(line=0) if script.is_wrapped else call))
            if call.command == STEP:
                from rankd.cli.jobs.step_option import script_warnings

                for warning in script_warnings(script.text, arguments.tasks):
                    _warn(warning.removeprefix("line 2: ") if script.is_wrapped else warning)
    arguments.count = 1 if arguments.count is None else arguments.count
    arguments.is_patient = arguments.retry_for is not None
    arguments.retry_for = RETRY_FOR_S if arguments.retry_for is None else arguments.retry_for
    return filled


def _warn(text: str) -> None:
    from rankd.cli.common.screen import print_line

    print_line(f"rankd: {text}", error=True)


def _is_local(arguments: argparse.Namespace) -> bool:
    """Whether jobs can use the current directory. A named broker may belong to other machines."""
    return not find(arguments).by_bus


def read_jobs(name: str) -> list[Job]:
    """A document with one job, a list of jobs, or ``{"jobs": […]}``.

    Raises:
        Refused: ``bad_request``: it can't be read, or is none of these.
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
