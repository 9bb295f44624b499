"""Which options of a job count for a step, a command that ``rankd run`` or ``srun`` starts inside a job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn

from rankd.cli.common.option import add_asker, add_place
from rankd.client.batch.option import add_job_options
from rankd.core.errors import Refused
from rankd.core.near_name import cut
from rankd.core.submission.step_command import step_words

HONOURED = frozenset({"nodes", "tasks", "chdir", "retry_for"})
OF_THE_JOB = frozenset(
    {
        *("name", "account", "queue", "partition", "qos", "comment"),
        *("tasks_per_node", "cores", "mem", "mem_per_cpu", "mem_per_gpu"),
        *("gpus", "gpus_per_node", "gpus_per_task", "cpus_per_gpu", "gres", "exclusive", "constraints"),
    }
)
"""They have no effect: a step has all that its job has, and belongs to what its job belongs to."""
MOST_LINES = 20
"""Lines of a script whose options are read."""


def check_step(arguments: argparse.Namespace) -> str | None:
    """A warning about options without effect in a step; None without any.

    Raises:
        Refused: ``usage``: an option that would change what the step does, such as ``--output``.
    """
    useless = []
    for name, option in _given(arguments):
        if name in OF_THE_JOB:
            useless.append(option)
        elif name not in HONOURED:
            raise Refused("usage", f"{option} can't be given for a step inside a job; leave it out", name)
    if not useless:
        return None
    has = "has" if len(useless) == 1 else "have"
    return f"{', '.join(useless)} {has} no effect inside a job: a step has all that its job has"


def _given(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The options of jobs that were given: their names, and the words that users know."""
    parser = argparse.ArgumentParser(add_help=False)
    add_job_options(parser)
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of its options
        if getattr(arguments, action.dest, action.default) != action.default:
            word = next((word for word in action.option_strings if word.startswith("--")), action.dest)
            yield action.dest, word


class _Parser(argparse.ArgumentParser):
    """The options of ``rankd run``, for lines that a shell has not expanded yet."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def script_warnings(script: str, tasks: int | None) -> Iterator[str]:
    """What the lines of a script ask of ``srun`` that it refuses or does otherwise. ``tasks``: of the job."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_job_options(parser)
    for word in ("--pty", "--no-stdin", "--detach-ok"):
        parser.add_argument(word, action="store_true")
    parser.add_argument("-l", "--label", action="store_true")
    add_place(parser, broker=True)
    add_asker(parser, "--user", "--as")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    for line, words in islice(step_words(script), MOST_LINES):
        try:
            given, unknown = parser.parse_known_args(words)
        except (ValueError, Refused):
            continue
        bad = [option for name, option in _given(given) if name not in HONOURED | OF_THE_JOB]
        bad += [cut(word.partition("=")[0]) for word in unknown if word.startswith("-")]
        if bad:
            yield f"line {line}: srun refuses {', '.join(bad)} inside a job, and ends with an error; leave it out"
        is_known = given.command and not given.command[0].startswith("$")
        if tasks is not None and tasks > 1 and given.tasks is None and is_known:
            yield f"line {line}: srun without -n runs once on each node; write srun -n {tasks} for {tasks} tasks"
