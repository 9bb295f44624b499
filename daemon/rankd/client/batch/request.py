"""Makes a job request from options like sbatch's. Pure: no network, and the time is an argument.

Amounts follow Slurm: ``--mem`` is binary, in MiB without a suffix; ``--gpus`` is for the whole job; ``-c`` is
per task, with one task per node unless ``-n`` is given. In the request, all amounts are per node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rankd.client.batch.generic_resource import generic_amounts, is_device_kind
from rankd.core.errors import Refused
from rankd.core.model.secret import without_secrets
from rankd.core.submission.duration import parse_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rankd.client.batch.script import Script

Job = dict[str, Any]

URGENCIES = {"hold": 0, "default": 16, "expedite": 31}
OF_CREDENTIALS = frozenset(f"RANKD_{name}" for name in ("CREDS", "TOKEN", "NATS", "CA", "TLS_CERT", "TLS_KEY"))
OF_ENCLOSING_JOB = ("SLURM_", "RANKD_ARRAY_")
OF_DEVICES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
LONGEST = 64 * 2**10
"""The most bytes of a variable of a step, as :mod:`rankd.wire.request_size` has it."""
EXPORTED_ALL = "ALL"
EXPORTED_NONE = "NONE"

_LETTERS = ("j", "A", "a", "x", "u", "n", "%")
"""What may follow ``%`` in the names of files."""
_NODES = r"(?P<least>[0-9]+)(-(?P<most>[0-9]+))?"  # patterns are compiled at their first use: most jobs need none
_MEMORY = r"(?P<amount>[0-9]+)\s*(?P<unit>[KMGTkmgt]?)(i?[Bb]?)"
_CORES = r"[0-9]+(\.[0-9]+)?|[0-9]+m"

_ALONE = ("mem", "mem_per_cpu", "mem_per_gpu", "cores", "cpus_per_gpu")
_AS_GIVEN = (
    "name",
    "account",
    "queue",
    "qos",
    "application",
    "priority_class",
    "partition",
    "array",
    "constraints",
    "comment",
    "stdin",
    "stdout",
    "stderr",
    "open_mode",
)


def job_of(arguments: argparse.Namespace, environment: dict[str, str], now: float, script: Script | None = None) -> Job:
    """The request. Options that are not given are left out, so that the intake's defaults apply.

    Raises:
        Refused: ``usage``: a value that can't be read, or no command.
    """
    job = _work(arguments, script)
    job |= {name: getattr(arguments, name) for name in _AS_GIVEN if getattr(arguments, name) is not None}
    for name in ("stdin", "stdout", "stderr"):
        if "%" in job.get(name, "") and not (name == "stderr" and job[name] == job.get("stdout")):
            _check_pattern(name, job[name])
    job |= _size(arguments)
    job |= _times(arguments, now)
    if arguments.urgency is not None:
        job["urgency"] = parse_urgency(arguments.urgency)
    elif arguments.nice is not None:
        job["urgency"] = _urgency_of_nice(arguments.nice)
    job |= _conditions(arguments)
    for flag, name in (("hold", "held"), ("exclusive", "exclusive"), ("slurm_env", "slurm_env")):
        if getattr(arguments, flag):
            job[name] = True
    if arguments.notify is not None or arguments.notify_to is not None:
        from rankd.client.batch.notify import notify_of

        job |= notify_of(arguments.notify, arguments.notify_to, if_allowed=bool(arguments.notify_if_allowed))
    if arguments.requeue is not None:
        job["requeue"] = arguments.requeue
    if env := exported(arguments.export, arguments.export_env, environment):
        job["env"] = env
    return job


def _check_pattern(field: str, pattern: str) -> None:
    """Check the letters in the name of a file.

    Raises:
        Refused: ``usage``: one has no meaning.
    """
    for letter in re.findall(r"%[0-9]*(.?)", pattern, re.DOTALL):
        if letter in ("", *_LETTERS):
            continue
        other = {"N": "; write %n for the node", "J": "; write %j for the job's id", "t": "; a job has one file"}
        hint = other.get(letter, "")
        message = f"'%{letter}' has no meaning in the name of a file{hint}; known: %{', %'.join(_LETTERS)}"
        raise Refused("usage", message, field)


def _work(arguments: argparse.Namespace, script: Script | None) -> Job:
    """What the job runs."""
    if script is not None:
        return {"command": [script.name, *script.arguments], "script": script.text}
    return {"command": command_of(arguments)}


def _conditions(arguments: argparse.Namespace) -> Job:
    job: Job = {}
    if arguments.dependency:
        from rankd.client.batch.dependency import parse_dependencies

        job["depends_on"] = parse_dependencies(arguments.dependency)
    if arguments.kill_on_invalid_dep is not None:
        job["cancel_if_unmet"] = arguments.kill_on_invalid_dep == "yes"
    return job


def use_scripts_defaults(arguments: argparse.Namespace, *, is_slurms: bool) -> None:
    """What sbatch does with a script: its environment travels, and both outputs go to one file.

    An empty name of a file means the default, as with sbatch.
    """
    if not arguments.stdout:
        numbers = "%j" if arguments.array is None else "%A_%a"
        arguments.stdout = f"{'slurm' if is_slurms else 'job'}-{numbers}.out"
    if not arguments.stderr:
        arguments.stderr = arguments.stdout
    if arguments.export is None:
        arguments.export = EXPORTED_ALL


def command_of(arguments: argparse.Namespace) -> list[str]:
    """The command after ``--``."""
    command = list(arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command)
    if not command:
        raise Refused(
            "usage",
            "no command and no script; write `rankd submit -- COMMAND ...`, `rankd submit SCRIPT`, or `-` to read it",
            "command",
        )
    return command


def _node_count(arguments: argparse.Namespace) -> Job:
    """How many nodes, and which ones if some are named."""
    least = most = _nodes_of_tasks(arguments)
    if arguments.nodes:
        least, most = parse_nodes(arguments.nodes)
    count: Job = {}
    if arguments.nodelist is not None or arguments.exclude is not None:
        from rankd.client.batch.node_name import Nodes, constraints_of, nodes_of

        least, most, _ = nodes_of(arguments.nodelist, Nodes(least, most, bool(arguments.nodes) or most > 1))
        count["constraints"] = constraints_of(arguments.constraints, arguments.nodelist, arguments.exclude)
    if arguments.nodes or most > 1:
        count["nodes"] = most
    if least != most:
        count["min_nodes"] = least
    return count


def _size(arguments: argparse.Namespace) -> Job:
    """Nodes, and the amounts of each."""
    _check_alone(arguments)
    size = _node_count(arguments)
    most = size.get("nodes", 1)
    resources: Job = {}
    generic = generic_amounts(arguments, most, _tasks_on_node(arguments, most))
    cores = _cores(arguments, most)
    if arguments.cpus_per_gpu is not None:
        cores = arguments.cpus_per_gpu * _gpus(generic, "cpus_per_gpu")
    if cores is not None:
        resources["vcore"] = cores
    if arguments.mem is not None:
        resources["memory"] = parse_memory(arguments.mem)
    if arguments.mem_per_cpu is not None:
        resources["memory"] = _memory_of_cores(arguments.mem_per_cpu, 1 if cores is None else cores)
    if arguments.mem_per_gpu is not None:
        resources["memory"] = _memory_of_cores(arguments.mem_per_gpu, _gpus(generic, "mem_per_gpu"))
    resources |= generic
    if resources:  # naming one amount must not lose the core that every job gets by default
        size["resources"] = {"vcore": 1} | resources
    return size


def _check_alone(arguments: argparse.Namespace) -> None:
    """Check that options that exclude each other are not given together.

    Raises:
        Refused: ``usage``: some are.
    """
    given = [name for name in _ALONE if getattr(arguments, name) is not None]
    if len(given) < 2:  # the usual case imports nothing
        return
    from rankd.client.batch.layer import dashed, excluded

    for names in excluded(given):
        options = " and ".join(f"--{dashed(name)}" for name in names)
        raise Refused("usage", f"{options} exclude each other; give one of them", names[-1])


def _nodes_of_tasks(arguments: argparse.Namespace) -> int:
    """The nodes of a job that does not say how many: more than one only if its tasks per node say so."""
    for name in ("tasks", "tasks_per_node"):
        if (number := getattr(arguments, name)) is not None and number < 1:
            raise Refused("usage", f"{number} is not a number of tasks; give at least 1", name)
    if arguments.tasks is None or arguments.tasks_per_node is None:
        return 1
    return -(-int(arguments.tasks) // int(arguments.tasks_per_node))


def _tasks_on_node(arguments: argparse.Namespace, nodes: int) -> int:
    if arguments.tasks is None:
        return int(arguments.tasks_per_node or 1)
    return -(-int(arguments.tasks) // nodes)


def _gpus(amounts: Mapping[str, int], field: str) -> int:
    number = sum(amount for kind, amount in amounts.items() if is_device_kind(kind))
    if not number:
        raise Refused("usage", "an amount per GPU needs a number of GPUs; give --gpus-per-node", field)
    return number


def _cores(arguments: argparse.Namespace, nodes: int) -> float | str | None:
    """Cores per node: the cores of a task times the tasks on a node."""
    if arguments.cores is None and arguments.tasks is None and arguments.tasks_per_node is None:
        return None
    if arguments.tasks is None and arguments.tasks_per_node is None:
        return parse_cores(arguments.cores)
    each = parse_cores(arguments.cores or "1")
    if isinstance(each, str):
        raise Refused("usage", f"-n and -c {each} don't go together; give whole cores per task", "cores")
    return each * _tasks_on_node(arguments, nodes)


def parse_cores(text: str) -> float | str:
    """``4``, ``0.5`` or ``500m``. Thousandths stay text."""
    if not re.fullmatch(_CORES, text):
        raise Refused("usage", f"'{text}' is not a number of cores; write 4, 0.5 or 500m", "cores")
    if text.endswith("m"):
        return text
    return float(text) if "." in text else int(text)


def parse_nodes(text: str) -> tuple[int, int]:
    """``N`` or ``least-most``."""
    match = re.fullmatch(_NODES, text)
    least = int(match["least"]) if match else 0
    most = int(match["most"] or least) if match else 0
    if not 1 <= least <= most:
        raise Refused("usage", f"'{text}' is not a number of nodes; write 4, or 2-4 for as many as are free", "nodes")
    return least, most


def parse_memory(text: str) -> str:
    """Slurm's sizes as a quantity: ``4G`` is 4Gi, ``500`` is 500Mi.

    >>> [parse_memory(t) for t in ("500", "4G", "2gib", "64K")]
    ['500Mi', '4Gi', '2Gi', '64Ki']
    """
    match = re.fullmatch(_MEMORY, text.strip())
    if not match:
        raise Refused("usage", f"'{text}' is not an amount of memory; write 500M, 4G or 4Gi", "mem")
    return f"{match['amount']}{(match['unit'] or 'M').upper()}i"


def _memory_of_cores(text: str, cores: float | str) -> int:
    from rankd.core.model.quantity import VCORE, parse_amount, parse_quantity

    return parse_quantity("memory", parse_memory(text)) * parse_amount(VCORE, cores) // 1000


def _times(arguments: argparse.Namespace, now: float) -> Job:
    times: Job = {}
    if arguments.time is not None:
        times["time_limit_s"] = parse_duration(arguments.time)
    if arguments.begin is not None:
        times["begin_at"] = _begin(arguments.begin, now)
    return times


def _begin(text: str, now: float) -> float:
    from rankd.client.instant import parse_time  # it takes 2 ms to import

    try:
        return parse_time(text, now, "future")
    except Refused as error:
        raise Refused(error.code, error.message, "begin") from None


def _urgency_of_nice(text: str) -> int:
    from rankd.core.slurm.sbatch_value import urgency_of_nice

    try:
        return int(urgency_of_nice(text))
    except ValueError as error:
        raise Refused("usage", f"--nice: {error}", "nice") from None


def parse_urgency(text: str) -> int:
    """0 to 31, or Flux's words hold, default, expedite."""
    if text in URGENCIES:
        return URGENCIES[text]
    if not text.isdecimal() or int(text) > URGENCIES["expedite"]:
        raise Refused("usage", f"'{text}' is not an urgency; write 0 to 31, hold, default or expedite", "urgency")
    return int(text)


def _travels(name: str, value: str) -> bool:
    """Whether ``ALL`` passes a variable on: no credential of rankd, no number of an enclosing job, and only text."""
    return (
        name not in OF_CREDENTIALS
        and not name.startswith(OF_ENCLOSING_JOB)
        and (value.isascii() or not any("\ud800" <= character <= "\udfff" for character in f"{name}{value}"))
    )


def of_step(environment: dict[str, str]) -> dict[str, str]:
    """What a step gets of the environment in which it is started: all but what differs between nodes and processes.

    A text that is too long for a request stays as the job has it.

    >>> of_step({"A": "1", "RANKD_DIR": "d", "RANKD_JOB_ID": "7", "SLURM_NODEID": "0", "CUDA_VISIBLE_DEVICES": "0"})
    {'A': '1', 'RANKD_DIR': 'd'}
    """
    env = {name: value for name, value in environment.items() if _travels(name, value) and not _is_of_node(name)}
    return without_secrets({name: value for name, value in env.items() if len(value.encode()) <= LONGEST})


def _is_of_node(name: str) -> bool:
    return name in OF_DEVICES or (name.startswith("RANKD_") and name != "RANKD_DIR")


def exported(spec: str | None, pairs: list[tuple[str, str]], environment: dict[str, str]) -> dict[str, str]:
    """The job's environment, by default empty. Items are ``ALL``, names of variables to pass on, or ``NAME=VALUE``."""
    env: dict[str, str] = {}
    for item in (spec or EXPORTED_NONE).split(","):
        name, equals, value = item.partition("=")
        if item == EXPORTED_ALL:
            env |= {name: value for name, value in environment.items() if _travels(name, value)}
        elif equals:
            env[name] = value
        elif item and item != EXPORTED_NONE:
            env |= {name: environment[name]} if name in environment else {}
    return without_secrets(env | dict(pairs))
