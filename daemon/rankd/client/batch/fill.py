"""Fills in the options that variables and a script give, and makes the job: with all errors at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused
from rankd.core.near_name import cut

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from rankd.client.batch.layer import Say
    from rankd.client.batch.request import Job
    from rankd.client.batch.script import Script

_OF_GPUS = frozenset({"gpus", "gpus_per_node", "gpus_per_task", "gres"})
_PATHS = {"stdin": "--input", "stdout": "--output", "stderr": "--error", "chdir": "--chdir"}
_PER_GPU = ("mem_per_gpu", "cpus_per_gpu")


class Filled(NamedTuple):
    """Where values are from, by their options; and the errors of lines of the script."""

    where: Mapping[str, str] = {}
    problems: Sequence[Refused] = ()


def fill(arguments: argparse.Namespace, script: Script | None, environment: Mapping[str, str], say: Say) -> Filled:
    """Fill in what ``arguments`` leaves open: from variables ``RANKD_SUBMIT_…``, then ``SBATCH_…``, then the script.

    Raises:
        Refused: ``usage``: a variable has a wrong value. ``bad_directive``: the script's lines can't be read at all.
    """
    if script is None and not any(name.startswith(("RANKD_SUBMIT_", "SBATCH_")) for name in environment):
        return Filled()
    from rankd.client.batch.layer import (
        ScriptLayers,
        merged,
        of_environment,
        of_sbatch_variables,
        of_script,
        option_parser,
    )
    from rankd.client.batch.request import use_scripts_defaults

    parser = option_parser()
    layers = [*of_sbatch_variables(environment, parser, say), *of_environment(environment, parser, say)]
    ignores = arguments.ignore_unknown or any(layer.values.get("ignore_unknown") for layer in layers)
    found = ScriptLayers([], False, [])
    if script is not None:
        found = of_script(script.text, script.name, parser, say, ignores=ignores)
        found = found._replace(is_slurms=found.is_slurms or script.is_wrapped)
        arguments.slurm_env = arguments.slurm_env or found.is_slurms
    is_explicit = arguments.notify is not None and not arguments.notify_if_allowed
    where = merged(arguments, [*found.layers, *layers])
    if is_explicit:  # what the command line asks for is not left out because of #SBATCH lines
        arguments.notify_if_allowed = False
    for warning in unexpanded(arguments, where):
        say(warning)
    if script is not None:
        use_scripts_defaults(arguments, is_slurms=found.is_slurms)
    return Filled(where, found.problems)


def unexpanded(arguments: argparse.Namespace, where: Mapping[str, str]) -> Iterator[str]:
    """Warnings about paths of lines and variables that only a shell would read as the user means them."""
    for name, option in _PATHS.items():
        path = getattr(arguments, name)
        if name in where and path and re.match(r"~[\w.-]*(/|$)|.*\$[A-Za-z_{]", path):
            yield f"{where[name]}: {option} {cut(path)}: ~ and $ are not expanded here; write the whole path"


def job_or_errors(
    arguments: argparse.Namespace, environment: dict[str, str], now: float, script: Script | None, filled: Filled
) -> Job:
    """The job. ``arguments`` loses the options whose values can't be read.

    Raises:
        Refused: there is one error.
        ExceptionGroup: there are several, each :class:`Refused`, in the order of the lines first.
    """
    from rankd.client.batch.request import job_of

    problems = list(filled.problems)
    while True:
        try:
            job = job_of(arguments, environment, now, script)
        except Refused as error:
            told = blamed(error, filled.where)
            if told.message not in {problem.message for problem in problems}:  # both outputs may have one pattern
                problems.append(told)
            if _without(arguments, error.field):
                continue
        break
    if not problems:
        return job
    if len(problems) == 1:
        raise problems[0]
    raise ExceptionGroup("the job can't be submitted", problems)


def blamed(error: Refused, where: Mapping[str, str]) -> Refused:
    """The same error, with the line or the variable that gave the value which it is about, if there is one."""
    if not where:
        return error
    from rankd.client.batch.layer import others

    field = error.field or ""
    place = next((where[name] for name in (field, *others(field)) if name in where), None)
    return error if place is None else Refused(error.code, f"{place}: {error.message}", error.field, error.status)


def _without(arguments: argparse.Namespace, field: str | None) -> bool:
    """Leave out the option of this field, so that the others are read, too. Returns false if it had no value."""
    if field in (None, "command") or getattr(arguments, str(field), None) is None:
        return False
    for name in (str(field), *(_PER_GPU if field in _OF_GPUS else ())):
        setattr(arguments, name, None)
    return True
