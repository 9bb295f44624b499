"""Those of Slurm's variables that only the submission knows: what was asked for, and where. Pure.

Source: sbatch(1) of Slurm 24.11, "Output environment variables". Amounts of memory are in MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.client.batch.request import EXPORTED_ALL, parse_memory
from rankd.core.model.quantity import parse_quantity

if TYPE_CHECKING:
    import argparse

    from rankd.client.batch.request import Job

_MIB = 2**20
_AS_GIVEN = {
    "SLURM_NTASKS_PER_NODE": "tasks_per_node",
    "SLURM_GPUS": "gpus",
    "SLURM_GPUS_PER_NODE": "gpus_per_node",
    "SLURM_GPUS_PER_TASK": "gpus_per_task",
    "SLURM_CPUS_PER_GPU": "cpus_per_gpu",
    "SLURM_JOB_DEPENDENCY": "dependency",
}
_OF_MEMORY = {"SLURM_MEM_PER_CPU": "mem_per_cpu", "SLURM_MEM_PER_GPU": "mem_per_gpu"}


def submission_variables(arguments: argparse.Namespace, job: Job, directory: str, host: str) -> dict[str, str]:
    """The variables of a job. ``directory``, ``host``: where it is submitted."""
    nodes, per_node = job.get("nodes", 1), arguments.tasks_per_node
    tasks = arguments.tasks if arguments.tasks is not None else per_node and per_node * nodes
    found = {"SLURM_SUBMIT_DIR": directory, "SLURM_SUBMIT_HOST": host}
    if tasks is not None:
        found |= {"SLURM_NTASKS": str(tasks), "SLURM_CPUS_PER_TASK": "1"}
    if arguments.cores is not None and arguments.cores.isdecimal():
        found["SLURM_CPUS_PER_TASK"] = arguments.cores
    for name, option in _AS_GIVEN.items():
        if getattr(arguments, option) is not None:
            found[name] = str(getattr(arguments, option))
    if arguments.export not in (None, EXPORTED_ALL):  # as with sbatch, which sets it only if --export is given
        found["SLURM_EXPORT_ENV"] = arguments.export
    for name, option in _OF_MEMORY.items():
        if getattr(arguments, option) is not None:
            found[name] = str(parse_quantity("memory", parse_memory(getattr(arguments, option))) // _MIB)
    return found
