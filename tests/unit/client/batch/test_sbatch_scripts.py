"""Batch scripts in the style of computing centres: accepted as they are, or refused by the line that has no equivalent.

All are written for this test; only their options are those that such scripts usually have.
"""

import pytest
from unit.client.batch.test_script import here, submitted  # noqa: F401 - a fixture

from rankd.core.errors import Refused

SERIAL = """#!/bin/bash
#SBATCH --job-name=first-steps
#SBATCH --output=logs/%x-%j.out
#SBATCH --error=logs/%x-%j.err
#SBATCH --time=00:10:00          # ten minutes are plenty
#SBATCH --ntasks=1
#SBATCH --mem-per-cpu=500
hostname
"""

THREADS = """#!/bin/bash -l
#SBATCH -J threads
#SBATCH -A project7
#SBATCH -N 1
#SBATCH -n 1
#SBATCH -c 16
#SBATCH -t 1-00:00
#SBATCH --hint=nomultithread
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --mail-user=someone@example.org

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
./solver input.dat
"""

MPI = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=24
#SBATCH --cpus-per-task=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --partition=standard
#SBATCH --qos=short
#SBATCH --time=12:00:00
#SBATCH --switches=1
#SBATCH --no-requeue

mpirun ./waves
"""

HYBRID = """#!/bin/bash
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=12
#SBATCH --distribution=block:cyclic
#SBATCH --mem-per-cpu=2G
#SBATCH --constraint="ib&haswell"
#SBATCH -t 0-06:30:00
mpirun ./hybrid
"""

ONE_GPU = """#!/usr/bin/env bash
#SBATCH --account=ml-lab
#SBATCH -p gpu -q normal
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8 --mem=32GB
#SBATCH --time=1440 # minutes
#SBATCH -o %N.%j.log
#SBATCH --open-mode=truncate
set -euo pipefail
python3 train.py "$@"
"""

FOUR_GPUS = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-gpu=6
#SBATCH --mem-per-gpu=40G
#SBATCH --requeue
#SBATCH --nice
#SBATCH --comment "sweep 3, second try"
torchrun train.py
"""

MODEL_OF_GPU = """#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=gpu --account=ml-lab
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-task=8 --mem=120G
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out --open-mode=append
module purge
module load CUDA/12.4 OpenMPI
srun python3 finetune.py
"""

SWEEP = """#!/bin/bash
#SBATCH -J sweep
#SBATCH --array=1-20%4
#SBATCH --gpus-per-node=a100:1
#SBATCH -c 4 --mem-per-gpu=20G -t 0-04:00
#SBATCH -o logs/%A_%a.out
module load Python/3.12
python3 sweep.py --seed "$SLURM_ARRAY_TASK_ID"
"""

PYTHON = '''#!/usr/bin/env python3
#SBATCH --job-name="analysis of a day"
#SBATCH --begin=now+1hour
#SBATCH --dependency=afterok:17:18
#SBATCH --export=ALL,MODE=fast
#SBATCH --chdir=/scratch/run
"""Says which cores it has."""
import os
print(os.sched_getaffinity(0))
'''

SIGNAL = """#!/bin/bash
#SBATCH --job-name=checkpoint
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
trap 'touch stop' USR1
./simulate & wait
"""

MODEL = """#!/bin/bash
#SBATCH --partition=gpu

#SBATCH --gres=fpga:u250:4
#SBATCH --mem=200G
python3 train.py
"""

NODES = """#!/bin/sh
# run where the disks are quick
#SBATCH --ntasks=1
#SBATCH --exclude=node[07-09],node12
./bench
"""

LICENCE = """#!/bin/bash
#SBATCH -L solver@server:2
#SBATCH -n 1
./solve
"""


def of(job, *names):
    return {name: job.get(name) for name in names}


def test_a_serial_job():
    job = submitted("train.sh", text=SERIAL)
    assert of(job, "name", "stdout", "stderr", "time_limit_s", "resources") == {
        "name": "first-steps", "stdout": "logs/%x-%j.out", "stderr": "logs/%x-%j.err", "time_limit_s": 600.0,
        "resources": {"vcore": 1, "memory": 500 * 2**20},
    }  # fmt: skip


def test_a_job_of_threads(capsys):
    job = submitted("train.sh", text=THREADS)
    assert of(job, "account", "nodes", "resources", "time_limit_s", "stdout") == {
        "account": "project7", "nodes": 1, "resources": {"vcore": 16}, "time_limit_s": 86400.0,
        "stdout": "slurm-%j.out",
    }  # fmt: skip
    assert job["env"]["SLURM_CPUS_PER_TASK"] == "16"
    notify = {"on": ["start", "end", "fail"], "to": ["mailto:someone@example.org"], "if_allowed": True}
    assert job["notify"] == notify
    assert [line.split()[3] for line in capsys.readouterr().err.splitlines()] == ["--hint"]


def test_a_job_of_many_nodes(capsys):
    job = submitted("train.sh", text=MPI)
    assert of(job, "nodes", "resources", "exclusive", "queue", "qos", "requeue") == {
        "nodes": 4, "resources": {"vcore": 24}, "exclusive": True, "queue": "standard", "qos": "short",
        "requeue": False,
    }  # fmt: skip
    assert job["env"]["SLURM_NTASKS"] == "96"
    assert "--mem has no effect here" in capsys.readouterr().err


def test_tasks_and_threads():
    job = submitted("train.sh", text=HYBRID)
    assert of(job, "nodes", "resources", "constraints", "time_limit_s") == {
        "nodes": 4, "resources": {"vcore": 24, "memory": 48 * 2**30}, "constraints": "ib,haswell",
        "time_limit_s": 23400.0,
    }  # fmt: skip


def test_a_gpu_and_arguments():
    job = submitted("train.sh", "--epochs", "3", text=ONE_GPU)
    assert of(job, "account", "queue", "qos", "resources", "time_limit_s", "stdout", "command") == {
        "account": "ml-lab", "queue": "gpu", "qos": "normal", "time_limit_s": 86400.0, "stdout": "%n.%j.log",
        "resources": {"vcore": 8, "gpu": 1, "memory": "32Gi"}, "command": ["train.sh", "--epochs", "3"],
    }  # fmt: skip


def test_gpus_on_several_nodes():
    job = submitted("train.sh", text=FOUR_GPUS)
    assert of(job, "nodes", "resources", "requeue", "urgency", "comment") == {
        "nodes": 2, "resources": {"vcore": 24, "gpu": 4, "memory": 160 * 2**30}, "requeue": True, "urgency": 15,
        "comment": "sweep 3, second try",
    }  # fmt: skip


def test_gpus_of_a_model_on_several_nodes(capsys):
    job = submitted("train.sh", text=MODEL_OF_GPU)
    assert of(job, "nodes", "resources", "queue", "open_mode", "stdout", "slurm_env") == {
        "nodes": 2, "resources": {"vcore": 16, "gpu:a100": 2, "memory": "120Gi"}, "queue": "gpu",
        "open_mode": "append", "stdout": "%x-%j.out", "slurm_env": True,
    }  # fmt: skip
    assert job["env"]["SLURM_NTASKS"] == "4"
    assert capsys.readouterr().err == (
        "rankd: line 11 calls srun, which is `rankd run` there; the node has to reach rankd as you do, by a"
        " directory of `rankd up` or by `rankd login`\n"
    )


def test_an_array_with_a_gpu_for_each_task():
    job = submitted("train.sh", text=SWEEP)
    assert of(job, "array", "resources", "stdout", "stderr", "time_limit_s") == {
        "array": "1-20%4", "resources": {"vcore": 4, "gpu:a100": 1, "memory": 20 * 2**30},
        "stdout": "logs/%A_%a.out", "stderr": "logs/%A_%a.out", "time_limit_s": 14400.0,
    }  # fmt: skip


def test_a_script_of_python():
    job = submitted("train.sh", text=PYTHON)
    assert of(job, "name", "cwd") == {"name": "analysis of a day", "cwd": "/scratch/run"}
    assert [one["job"] for one in job["depends_on"]] == [17, 18]
    assert job["env"]["MODE"] == "fast"
    assert "PATH" in job["env"]


def test_nodes_that_a_script_excludes_are_a_constraint():
    job = submitted("train.sh", text=NODES)
    assert job["constraints"] == "rankd/node notin (node07,node08,node09,node12)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SIGNAL, "line 4: #SBATCH --signal: .*SIGTERM"),
        (MODEL, "train.sh line 4: 'fpga:u250:4': .*fpga:4 and --constraint 'fpga=u250'"),
        (LICENCE, "line 2: #SBATCH --licenses: "),
    ],
    ids=["signal", "model", "licence"],
)
def test_what_has_no_equivalent_is_named_with_its_line(text, why):
    with pytest.raises(Refused, match=why):
        submitted("train.sh", text=text)
