"""Slurm's variables of a job on one of its nodes."""

import msgspec

from rankd.core.model.job import JobRequest
from rankd.core.model.job_environment import job_environment
from rankd.core.model.job_place import JobPlace

SLURM = JobPlace(
    job=17, allocation=5, user="alice", name="train", nodes=["n01", "n02", "n03"], rank=0,
    resources={"vcore": 4000, "memory": 8 * 2**30, "gpu": 2}, account="physics", queue="root.gpu.long", qos="high",
)  # fmt: skip


def slurm(place=SLURM, **request):
    found = job_environment({}, JobRequest(command=["train.sh"], slurm_env=True, **request), place)
    return {name: value for name, value in found.items() if name.startswith("SLURM")}


def test_slurms_variables_are_those_of_the_job():
    assert slurm(cwd="/w") == {
        "SLURM_JOB_ID": "17", "SLURM_JOBID": "17", "SLURM_JOB_NAME": "train", "SLURM_JOB_NODELIST": "n[01-03]",
        "SLURM_NODELIST": "n[01-03]", "SLURMD_NODENAME": "n01", "SLURM_LOCALID": "0", "SLURM_NPROCS": "3",
        "SLURM_JOB_CPUS_PER_NODE": "4(x3)", "SLURM_TASKS_PER_NODE": "1(x3)",
        "SLURM_NNODES": "3", "SLURM_JOB_NUM_NODES": "3", "SLURM_NODEID": "0", "SLURM_PROCID": "0",
        "SLURM_NTASKS": "3", "SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_NODE": "8192",
        "SLURM_JOB_PARTITION": "gpu.long", "SLURM_JOB_ACCOUNT": "physics", "SLURM_JOB_QOS": "high",
        "SLURM_SUBMIT_DIR": "/w", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_USER": "alice", "SLURM_GTIDS": "0",
        "SLURM_CLUSTER_NAME": "rankd", "SLURM_TASK_PID": "",
        "SLURM_TOPOLOGY_ADDR": "n01", "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }  # fmt: skip


def test_an_exclusive_job_has_the_cores_of_its_nodes():
    place = msgspec.structs.replace(SLURM, resources={"vcore": 8000}, whole=[8000, 8000, 4500])
    found = slurm(place)
    assert found["SLURM_JOB_CPUS_PER_NODE"] == "8(x2),5"
    assert (found["SLURM_CPUS_ON_NODE"], found["SLURM_CPUS_PER_TASK"]) == ("8", "8")


def test_without_asking_there_are_none():
    assert not [name for name in job_environment({}, JobRequest(command=["x"]), SLURM) if name.startswith("SLURM")]


def test_the_submission_knows_the_tasks_but_not_the_jobs_number():
    env = {"SLURM_NTASKS": "12", "SLURM_CPUS_PER_TASK": "1", "SLURM_SUBMIT_HOST": "login", "SLURM_JOB_ID": "3"}
    found = slurm(env=env)
    assert [found[name] for name in env] == ["12", "1", "login", "17"]
    assert found["SLURM_NPROCS"] == "12"
    assert found["SLURM_TASKS_PER_NODE"] == "4(x3)"
    assert "SLURM_TASKS_PER_NODE" not in slurm(env={"SLURM_NTASKS": "9" * 5000}), "not a number of tasks"


def test_a_job_knows_whose_process_it_is_when_it_began_and_how_often():
    place = msgspec.structs.replace(SLURM, uid=1000, gid=100, requeues=2, at=1_800_000_000.7)
    found = slurm(place, time_limit_s=60.0)
    assert (found["SLURM_JOB_UID"], found["SLURM_JOB_GID"], found["SLURM_RESTART_COUNT"]) == ("1000", "100", "2")
    assert (found["SLURM_JOB_START_TIME"], found["SLURM_JOB_END_TIME"]) == ("1800000000", "1800000060")
    assert "SLURM_JOB_END_TIME" not in slurm(place)


def test_amounts_that_a_job_does_not_have_are_left_out():
    found = slurm(msgspec.structs.replace(SLURM, resources={"vcore": 100}))
    assert not {"SLURM_MEM_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_SUBMIT_DIR"} & found.keys()
    assert found["SLURM_CPUS_ON_NODE"] == "1"


def test_a_tasks_numbers_have_slurms_names_too():
    found = slurm(env={"RANKD_ARRAY_JOB_ID": "9", "RANKD_ARRAY_TASK_ID": "3", "RANKD_ARRAY_TASK_STEP": "1"})
    assert [found.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID", "TASK_STEP")] == ["9", "3", "1"]
