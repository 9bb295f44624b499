"""Which options of a job count for a step, a command that ``rankd run`` or ``srun`` starts inside a job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rankd.client.batch.option import add_job_options
from rankd.core.errors import Refused

HONOURED = frozenset({"nodes", "tasks", "chdir", "retry_for"})
OF_THE_JOB = frozenset(
    {
        *("name", "account", "queue", "partition", "qos", "comment"),
        *("tasks_per_node", "cores", "mem", "mem_per_cpu", "mem_per_gpu"),
        *("gpus", "gpus_per_node", "gpus_per_task", "cpus_per_gpu", "gres", "exclusive", "constraints"),
    }
)
"""They have no effect: a step has all that its job has, and belongs to what its job belongs to."""


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
