"""Slurm's variables that only the submission knows."""

import pytest
from unit.client.batch.test_script import here, submitted  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("-N 2 --ntasks-per-node=4", {"NTASKS": "8", "NTASKS_PER_NODE": "4", "CPUS_PER_TASK": "1"}),
        ("-c 8 --mem-per-cpu=600mb", {"CPUS_PER_TASK": "8", "MEM_PER_CPU": "600"}),
        ("-G a100:2 --mem-per-gpu=2G --cpus-per-gpu=4", {"GPUS": "a100:2", "MEM_PER_GPU": "2048", "CPUS_PER_GPU": "4"}),
        ("--gpus-per-node=2", {"GPUS_PER_NODE": "2"}),
        ("-n 2 --gpus-per-task=1", {"GPUS_PER_TASK": "1", "NTASKS": "2", "CPUS_PER_TASK": "1"}),
        ("-d afterok:17", {"JOB_DEPENDENCY": "afterok:17"}),
        ("--mem=1G", {}),
        ("--export=ALL,A=1", {"EXPORT_ENV": "ALL,A=1"}),
    ],
)
def test_what_was_asked_for_is_in_the_environment(line, variables):
    job = submitted("train.sh", text=f"#!/bin/sh\n#SBATCH {line}\n")
    found = {name.removeprefix("SLURM_"): value for name, value in job["env"].items() if name.startswith("SLURM_")}
    assert {name: value for name, value in found.items() if not name.startswith("SUBMIT_")} == variables
