"""Finds Slurm's commands in a batch script, so that the user learns of them before the job runs. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

STEP = "srun"
"""Jobs with Slurm's variables have this one: it is ``rankd run``."""
STEPS = ("sbcast", "sattach")
"""Slurm's other commands for job steps."""
OTHERS = ("scontrol", "sbatch", "scancel", "squeue", "sacct", "sstat")
COMMANDS = (STEP, *STEPS, *OTHERS)

_START = r"^[ \t]*|[;&|({`][ \t]*|\b(?:then|do|else|exec|time|nohup|if|while|until|env|!)[ \t]+"
_CALL = rf"(?:{_START})(?:[A-Za-z_]\w*=\S*[ \t]+)*(?P<command>{'|'.join(COMMANDS)})(?=[ \t\n\\;&|)]|$)(?![ \t]*=)"
_OWN = rf"^[ \t]*(?:function[ \t]+)?(?:{'|'.join(COMMANDS)})[ \t]*\(\)|^[ \t]*alias[ \t]+(?:{'|'.join(COMMANDS)})="


LONGEST_LINE = 2_000
"""Characters of a line that are searched."""


class Call(NamedTuple):
    """The first line, from 1, that calls a command, and the number of lines that do; line 0 is that of --wrap."""

    command: str
    line: int
    lines: int


def step_calls(script: str) -> list[Call]:
    r"""The calls of Slurm's commands in a shell script, each command once.

    A script that defines such a command itself, or that is not for a shell, has none.

    >>> step_calls("#!/bin/sh\nmodule load mpi\nsrun -n 4 ./waves\nif true; then srun ./end; fi\n")
    [Call(command='srun', line=3, lines=2)]
    """
    first, _, _ = script.partition("\n")
    if not any(command in script for command in COMMANDS) or "sh" not in first:
        return []
    if re.search(_OWN, script, re.MULTILINE):
        return []
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(script.split("\n"), start=1):
        if any(command in line for command in COMMANDS) and not line.lstrip().startswith("#"):
            for command in dict.fromkeys(match["command"] for match in re.finditer(_CALL, line[:LONGEST_LINE])):
                lines.setdefault(command, []).append(number)
    return [Call(command, at[0], len(at)) for command, at in lines.items()]


def step_words(script: str) -> Iterator[tuple[int, list[str]]]:
    r"""The words behind each ``srun`` of a shell script, with the number of its line.

    A call that can't be read is left out.

    >>> list(step_words("#!/bin/sh\nsrun -n 2 \\\n  ./waves > out\n"))
    [(2, ['-n', '2', './waves'])]
    """
    if not any(call.command == STEP for call in step_calls(script)):
        return
    lines = script.split("\n")
    for place, line in enumerate(lines):
        if STEP not in line or line.lstrip().startswith("#"):
            continue
        text, following = line[:LONGEST_LINE], place + 1
        while text.endswith("\\") and following < len(lines) and len(text) < LONGEST_LINE:
            text, following = f"{text[:-1]} {lines[following][:LONGEST_LINE]}", following + 1
        for match in re.finditer(_CALL, text):
            if match["command"] == STEP and (words := _words(text[match.end() :])):
                yield place + 1, words


def _words(text: str) -> list[str]:
    """The words of a command up to its end or its first redirection; none if a quote stays open."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=";|&()<>")
    reader.whitespace_split, words = True, list[str]()
    try:
        for word in reader:
            if word[0] in ";|&()<>":
                break
            words.append(word)
    except (ValueError, IndexError):
        return []
    return words


_INSTEAD = {
    "srun": "the node has to reach rankd as you do, by a directory of `rankd up` or by `rankd login`",
    "sbcast": "copy the file in the script, or read it from a file system that all nodes share",
    "sattach": "the output is in the file that `rankd show JOB` names",
    "scontrol": "$RANKD_NODELIST has the names of the nodes with commas between them (for `scontrol show hostnames`:"
    " `echo $RANKD_NODELIST | tr , '\\n'`); `rankd show JOB` shows a job",
    "sbatch": "write `rankd submit SCRIPT`",
    "scancel": "write `rankd cancel JOB`",
    "squeue": "write `rankd queue`",
    "sacct": "write `rankd acct JOB`",
    "sstat": "write `rankd show JOB`",
}


def remark(call: Call) -> str:
    """What to tell the user about a call.

    >>> remark(Call("sattach", 3, 1))
    'line 3 calls sattach, which rankd does not have; the output is in the file that `rankd show JOB` names'
    >>> remark(Call("sbatch", 3, 1))
    'line 3 calls sbatch, which belongs to Slurm; write `rankd submit SCRIPT`'
    """
    if not call.line:
        where = "the line calls"
    else:
        where = f"line {call.line} calls" if call.lines == 1 else f"line {call.line} and {call.lines - 1} more call"
    if call.command == STEP:
        return f"{where} srun, which is `rankd run` there; {_INSTEAD[STEP]}"
    why = "which rankd does not have" if call.command in STEPS else "which belongs to Slurm"
    return f"{where} {call.command}, {why}; {_INSTEAD[call.command]}"
