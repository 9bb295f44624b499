"""The variables that Slurm sets in a batch script, as far as a node of rankd knows their values. Pure.

Source: sbatch(1) of Slurm 24.11, "Output environment variables". What was asked for, and where, is known to the
submission (:mod:`rankd.client.batch.slurm_environment`), and is in the request's ``env``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from rankd.core.model.nodelist import fold
from rankd.core.model.quantity import VCORE

if TYPE_CHECKING:
    from rankd.core.model.job import JobRequest
    from rankd.core.model.job_place import JobPlace

ARRAY_VARIABLES = ("JOB_ID", "TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX", "TASK_STEP")
OF_SUBMISSION = ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST")
"""Those of the variables here that the request may set itself."""
TASK_PID = "SLURM_TASK_PID"
"""The process fills it in when it begins."""
_MIB = 2**20
_COUNT = "[0-9]{1,9}"


def slurm_variables(place: JobPlace, request: JobRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """All of them for a job on one of its nodes. ``environment``: the job's other variables.

    ``SLURM_JOB_PARTITION`` is the queue, without ``root.``.
    """
    given = {name: request.env[name] for name in OF_SUBMISSION if name in request.env}
    same = {
        f"SLURM_ARRAY_{name}": environment[f"RANKD_ARRAY_{name}"]
        for name in ARRAY_VARIABLES
        if f"RANKD_ARRAY_{name}" in environment
    }
    return {
        **_of_job(place),
        **_of_nodes(place),
        **_of_tasks(place, given.get("SLURM_NTASKS")),
        **_of_amounts(place),
        **_of_times(place, request),
        **({"SLURM_SUBMIT_DIR": request.cwd} if request.cwd else {}),
        **({"SLURM_JOB_GPUS": environment["RANKD_GPUS"]} if place.devices else {}),
        **same,
        **given,
    }


def slurm_step(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a step of a job with Slurm's variables. ``environment``: the step's other ones.

    >>> slurm_step({"SLURM_JOB_ID": "17", "RANKD_STEP_ID": "3"})
    {'SLURM_STEP_ID': '3', 'SLURM_STEPID': '3'}
    >>> slurm_step({"RANKD_STEP_ID": "3"})
    {}
    """
    if "SLURM_JOB_ID" not in environment or "RANKD_STEP_ID" not in environment:
        return {}
    return dict.fromkeys(("SLURM_STEP_ID", "SLURM_STEPID"), environment["RANKD_STEP_ID"])


def _of_job(place: JobPlace) -> dict[str, str]:
    ids = {"SLURM_JOB_UID": place.uid, "SLURM_JOB_GID": place.gid, "SLURM_RESTART_COUNT": place.requeues or None}
    return {
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": place.cluster,
        TASK_PID: "",
        "SLURM_JOB_ID": str(place.job),
        "SLURM_JOBID": str(place.job),
        "SLURM_JOB_NAME": place.name,
        "SLURM_JOB_USER": place.user,
        "SLURM_JOB_PARTITION": place.queue.removeprefix("root."),
        "SLURM_JOB_ACCOUNT": place.account,
        "SLURM_JOB_QOS": place.qos,
        **{name: str(number) for name, number in ids.items() if number is not None},
    }


def _of_nodes(place: JobPlace) -> dict[str, str]:
    nodes, number = fold(place.nodes), str(len(place.nodes))
    return {
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURMD_NODENAME": place.node,
        "SLURM_TOPOLOGY_ADDR": place.node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_NNODES": number,
        "SLURM_JOB_NUM_NODES": number,
        "SLURM_NODEID": str(place.rank),
    }


def _of_tasks(place: JobPlace, given: str | None) -> dict[str, str]:
    """``given``: the number of tasks that the submission asks for. Otherwise there is one on each node."""
    n_nodes = len(place.nodes)
    number = int(given) if given is not None and re.fullmatch(_COUNT, given) else None
    spread = {} if given is not None and number is None else {"SLURM_TASKS_PER_NODE": spread_of(number, n_nodes)}
    n_tasks = str(n_nodes) if given is None else given
    same = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"), "0")
    return {**same, "SLURM_NTASKS": n_tasks, "SLURM_NPROCS": n_tasks, **spread}


def _of_amounts(place: JobPlace) -> dict[str, str]:
    cores = _cores(place.resources.get(VCORE, 0))
    gpus, memory = len(place.devices) or place.resources.get("gpu"), place.resources.get("memory")
    return {
        "SLURM_CPUS_PER_TASK": cores,
        "SLURM_CPUS_ON_NODE": cores,
        "SLURM_JOB_CPUS_PER_NODE": _listed([_cores(one) for one in place.whole] or [cores] * len(place.nodes)),
        **({} if memory is None else {"SLURM_MEM_PER_NODE": str(memory // _MIB)}),
        **({} if gpus is None else {"SLURM_GPUS_ON_NODE": str(gpus)}),
    }


def _cores(thousandths: int) -> str:
    """Whole cores, at least one."""
    return str(-(-thousandths // 1000) or 1)


def _of_times(place: JobPlace, request: JobRequest) -> dict[str, str]:
    if place.at is None:
        return {}
    ends = {} if request.time_limit_s is None else {"SLURM_JOB_END_TIME": str(int(place.at + request.time_limit_s))}
    return {"SLURM_JOB_START_TIME": str(int(place.at)), **ends}


def spread_of(tasks: int | None, n_nodes: int) -> str:
    """How many tasks each node has, as Slurm writes it; None means one on each. The first nodes have one more.

    >>> spread_of(4, 1), spread_of(None, 3), spread_of(8, 3)
    ('4', '1(x3)', '3(x2),2')
    """
    each, more = divmod(n_nodes if tasks is None else tasks, n_nodes)
    return _listed([str(each + (node < more)) for node in range(n_nodes)])


def _listed(numbers: list[str]) -> str:
    """Numbers per node; equal ones that follow each other are counted."""
    runs = [(number, len(list(same))) for number, same in groupby(numbers)]
    return ",".join(number if length == 1 else f"{number}(x{length})" for number, length in runs)
