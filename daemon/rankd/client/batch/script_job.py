"""The job of a batch script for programs: its lines count as for `rankd submit`, its environment does not travel."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path

from rankd.client.batch.fill import Filled, fill, job_or_errors
from rankd.client.batch.layer import Say
from rankd.client.batch.option import add_job_options
from rankd.client.batch.request import EXPORTED_NONE, Job
from rankd.client.batch.script import Script
from rankd.client.batch.slurm_environment import submission_variables
from rankd.core.errors import Refused
from rankd.core.submission.step_command import remark, step_calls

_WITHOUT_EFFECT = ("wait", "parsable", "json", "retry_for", "atomic")
_FOR_THE_COMMAND = ("test_only", "print_request", "count", "enqueue")


def script_job(script: Script, array: str | None, say: Say) -> Job:
    """The job that the lines of a script describe. ``array``: that of the program, which counts first.

    Raises:
        Refused: ``bad_directive``, ``usage``: lines or values that can't be read; the message names all of them.
    """
    arguments = _without_options()
    arguments.array = array
    filled = fill(arguments, script, {}, say)
    _check_flags(filled.where, say)
    if "export" not in filled.where:
        arguments.export = EXPORTED_NONE
    job = _made(arguments, script, filled)
    if arguments.chdir:
        job["cwd"] = str(Path(arguments.chdir).absolute())
    if arguments.slurm_env:
        own = submission_variables(arguments, job, str(Path.cwd()), os.uname().nodename)
        job["env"] = own | job.get("env", {})
    for call in step_calls(script.text):
        say(remark(call))
    return job


def _without_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    add_job_options(parser)
    arguments = parser.parse_args([])
    arguments.command = []
    return arguments


def _check_flags(where: Mapping[str, str], say: Say) -> None:
    """Options of the command itself.

    Raises:
        Refused: ``bad_directive``: without the option, something else would be submitted.
    """
    for name, place in where.items():
        option = f"--{name.replace('_', '-')}"
        if name in _FOR_THE_COMMAND:
            raise Refused("bad_directive", f"{place}: {option} is for `rankd submit`; leave it out", "script")
        if name in _WITHOUT_EFFECT:
            say(f"{place}: {option} has no effect in a program")


def _made(arguments: argparse.Namespace, script: Script, filled: Filled) -> Job:
    try:
        return job_or_errors(arguments, dict(os.environ), time.time(), script, filled)
    except ExceptionGroup as group:
        raise Refused("bad_directive", "; ".join(str(error) for error in group.exceptions), "script") from None
