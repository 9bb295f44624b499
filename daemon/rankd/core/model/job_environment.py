"""The environment and files of a running job, and the meaning of its return code: pure parts of the agent.

Here paths are only text, because this package does no I/O. The agent opens them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.model.array import TaskOfArray
from rankd.core.model.device_environment import device_variables
from rankd.core.model.job import JobRequest
from rankd.core.model.job_place import JobPlace
from rankd.core.model.slurm_environment import ARRAY_VARIABLES, slurm_variables

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
SIMULATED_S = 1.0

DEFAULT_OUTPUT = "job-%j"
"""The output file of a job that names none, with ``.out`` or ``.err`` added, in the agent's output directory."""
ARRAY_OUTPUT = "job-%A_%a"
"""The same for a task of an array."""
_DEFAULT_OUTPUT = re.compile(r"job-([1-9][0-9]{0,18})(?:_[0-9]{1,7})?\.(?:out|err)", re.ASCII)
_PATTERN = re.compile(r"%([0-9]*)(.)", re.DOTALL)
_NUMBERS = frozenset("jAa")
MOST_DIGITS = 10
"""The largest width to which a number is filled with zeros, as in Slurm."""


class Exit(NamedTuple):
    """How a command ended. Exactly one of the two fields is set."""

    exit_status: int | None
    signal: int | None


class SimulatedRun(NamedTuple):
    """How long a simulated job takes and how it ends."""

    duration_s: float
    exit_status: int


def exit_of(returncode: int) -> Exit:
    """The end of a command by Python's return code. A negative return code is a signal.

    >>> exit_of(-9)
    Exit(exit_status=None, signal=9)
    """
    return Exit(None, -returncode) if returncode < 0 else Exit(returncode, None)


def expand_pattern(pattern: str, place: JobPlace) -> str:
    """Replace ``%j`` by the job id, ``%x`` by the job name, ``%u`` by the user, ``%n`` by the node, ``%%`` by ``%``.

    ``%A`` is the id of the array, or that of a job that is no task; ``%a`` is the index of the task, or 0.

    A width fills a number with zeros: ``%4j`` is ``0017``. Before other letters it has no effect, as in Slurm.

    Another letter after ``%`` is not replaced. A ``/`` in a name becomes ``_``, so that a job's name can't lead into
    another directory.
    """
    array, index = (place.job, 0) if place.array is None else place.array[:2]
    values = {"j": str(place.job), "x": place.name, "u": place.user, "n": place.node, "%": "%"}
    values |= {"A": str(array), "a": str(index)}

    def replaced(found: re.Match[str]) -> str:
        width, letter = found.groups()
        value = values.get(letter, found[0]).replace("/", "_")
        return value.zfill(min(int(width[:3]), MOST_DIGITS)) if width and letter in _NUMBERS else value

    return _PATTERN.sub(replaced, pattern)


def job_path(pattern: str, place: JobPlace, cwd: str) -> str:
    """The path of the file for a pattern. A relative path starts from the job's working directory."""
    path = expand_pattern(pattern, place)
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def job_of_output(name: str) -> int | None:
    """The id of the job or array in the name of an output file in the agent's output directory. None for any other.

    >>> job_of_output("job-17.out"), job_of_output("job-17.out.gz")
    (17, None)
    """
    found = _DEFAULT_OUTPUT.fullmatch(name)
    return int(found[1]) if found else None


def job_environment(base: Mapping[str, str], request: JobRequest, place: JobPlace) -> dict[str, str]:
    """The job's whole environment: basic variables of the agent, then those of the request, then those of rankd.

    If the request has ``slurm_env``, it also has those of Slurm.
    """
    kept = {key: value for key, value in base.items() if key in KEPT_VARIABLES or key.startswith("LC_")}
    environment = {
        "PATH": DEFAULT_PATH,
        "PYTHONUNBUFFERED": "1",
        **kept,
        **request.env,
        "RANKD_JOB_ID": str(place.job),
        "RANKD_ALLOCATION_ID": str(place.allocation),
        "RANKD_JOB_NAME": place.name,
        "RANKD_USER": place.user,
        "RANKD_NODELIST": ",".join(place.nodes),
        "RANKD_NODE_NAME": place.node,
        "RANKD_NODE_RANK": str(place.rank),
        "RANKD_NNODES": str(len(place.nodes)),
        **_array_environment(place.array),
        **({} if place.counts_gpus else device_variables(place.devices, place.vendors, confines=place.confines)),
    }
    return {**environment, **slurm_variables(place, request, environment)} if request.slurm_env else environment


def _array_environment(task: TaskOfArray | None) -> dict[str, str]:
    """The variables of a task of an array."""
    if task is None:
        return {}
    values = (task.job, task.task, task.tasks, task.first, task.last, task.step)
    return {f"RANKD_ARRAY_{name}": str(value) for name, value in zip(ARRAY_VARIABLES, values, strict=True)}


def simulated_run(request: JobRequest) -> SimulatedRun:
    """How a simulated node runs a job.

    ``["sleep", "2.5"]`` takes 2.5 s; any other command takes 1 s. ``["false"]`` ends with 1; any other command with 0.
    The job's variables ``RANKD_SIMULATE_S`` and ``RANKD_SIMULATE_EXIT`` override the duration and the exit status.

    >>> simulated_run(JobRequest(command=["sleep", "2.5"]))
    SimulatedRun(duration_s=2.5, exit_status=0)
    """
    program = request.command[0].rpartition("/")[2] if request.command else ""
    duration = request.command[1] if program == "sleep" and len(request.command) == 2 else ""
    return SimulatedRun(
        _duration(request.env.get("RANKD_SIMULATE_S", duration)),
        _status(request.env.get("RANKD_SIMULATE_EXIT", ""), int(program == "false")),
    )


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return SIMULATED_S
    return value if math.isfinite(value) and value >= 0 else SIMULATED_S


def _status(text: str, default: int) -> int:
    return int(text) % 256 if text.isascii() and text.isdigit() else default
