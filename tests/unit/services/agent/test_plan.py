"""How a job is run on this node."""

import os
import pwd

import msgspec
import pytest

from rankd.core.admission.amount import SMALL_SHARE
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.services.agent.identity import RunAs
from rankd.services.agent.leftover import STATE_VARIABLE
from rankd.services.agent.plan import MAX_PROCESSES, Planner
from rankd.services.keeper.cgroup_layout import Limits
from rankd.services.keeper.proc import Identity
from rankd.wire.message import StartJob

ME = pwd.getpwuid(os.getuid())


class AsSubmitter:
    """The rule ``submitter`` without root: every job runs as the user of this process."""

    gives_users_rights = True

    def identity(self, user):
        if user == "nobody-here":
            raise Refused("no_such_user", "there is no such user", "user")
        return Identity(name=ME.pw_name, uid=ME.pw_uid, gid=ME.pw_gid, groups=[ME.pw_gid])


def start(*, resources=None, nodes=("n1",), rank=0, user="alice", script=None, holds=False, **request):
    return StartJob(
        allocation=5, job=17, user=user, name="fit", nodes=list(nodes), rank=rank, resources=resources or {},
        request=JobRequest(**{"command": ["true"], **request}), script=script, holds=holds,
    )  # fmt: skip


@pytest.fixture
def planner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Planner(tmp_path / "state", tmp_path / "out", RunAs())


def test_slurms_variables_have_the_user_and_the_time(tmp_path):
    planner = Planner(tmp_path / "state", tmp_path / "out", RunAs(), clock=lambda: 1_800_000_000.0)
    found = planner.plan(start(slurm_env=True, time_limit_s=60.0)).environment
    assert (found["SLURM_JOB_UID"], found["SLURM_JOB_GID"]) == (str(os.getuid()), str(os.getgid()))
    assert (found["SLURM_JOB_START_TIME"], found["SLURM_JOB_END_TIME"]) == ("1800000000", "1800000060")
    assert found["SLURM_CLUSTER_NAME"] == "rankd"
    planner.cluster = "hpc"
    assert planner.plan(start(slurm_env=True)).environment["SLURM_CLUSTER_NAME"] == "hpc"


def test_output_goes_to_the_agents_directory(planner, tmp_path):
    launch = planner.plan(start(user=ME.pw_name))
    assert (launch.stdout, launch.stderr) == (f"{tmp_path}/out/job-17.out", f"{tmp_path}/out/job-17.err")
    assert (launch.cwd, launch.stdin, launch.append) == (f"{tmp_path}/", None, False) or launch.cwd == str(tmp_path)


def test_a_per_cent_sign_in_the_directorys_name_is_no_pattern(tmp_path):
    launch = Planner(tmp_path / "state", tmp_path / "100%j", RunAs()).plan(start(user=ME.pw_name))
    assert launch.stdout == f"{tmp_path}/100%j/job-17.out"


@pytest.mark.parametrize(
    ("user", "directory"),
    [("alice", "alice"), ("../../etc", "%2E%2E%2F%2E%2E%2Fetc"), (".", "%2E"), ("100%j", "100%25j"), ("x" * 300, None)],
)
def test_jobs_of_others_that_run_as_the_agents_user_have_a_directory_each(planner, tmp_path, user, directory):
    """A name is one entry of the output directory, whatever it holds; one that is too long has no entry."""
    launch = planner.plan(start(user=user))
    assert launch.stdout == f"{tmp_path}/out/{f'{directory}/' if directory else ''}job-17.out"


def test_paths_of_a_job_start_from_its_own_directory(planner):
    launch = planner.plan(start(cwd="/data/run", stdin="in.txt", stdout="%x-%n.log", stderr="/tmp/err"))
    assert (launch.cwd, launch.stdin) == ("/data/run", "/data/run/in.txt")
    assert (launch.stdout, launch.stderr) == ("/data/run/fit-n1.log", "/tmp/err")


def test_a_job_may_append_to_its_files(planner):
    assert planner.plan(start(open_mode="append")).append


def test_a_job_on_several_nodes_appends_to_its_files(planner):
    launch = planner.plan(start(nodes=["n1", "n2"], rank=1))
    assert launch.append
    assert (launch.environment["RANKD_NODE_NAME"], launch.environment["RANKD_NODE_RANK"]) == ("n2", "1")


def test_a_job_carries_the_mark_of_the_state_directory_whatever_it_asks_for(planner, tmp_path):
    environment = planner.plan(start(env={STATE_VARIABLE: "/elsewhere", "A": "1"})).environment
    assert (environment[STATE_VARIABLE], environment["A"]) == (str(tmp_path / "state"), "1")


@pytest.mark.parametrize(("url", "is_kept"), [("nats://secret@broker:4222", False), ("nats://broker:4222", True)])
def test_a_job_does_not_get_the_agents_credentials(tmp_path, monkeypatch, url, is_kept):
    monkeypatch.setenv("RANKD_NATS", url)
    monkeypatch.setattr("rankd.core.model.job_environment.KEPT_VARIABLES", frozenset({"RANKD_NATS"}))
    environment = Planner(tmp_path / "state", tmp_path / "out", RunAs()).plan(start()).environment
    assert ("RANKD_NATS" in environment) is is_kept


@pytest.mark.parametrize(
    ("resources", "exclusive", "expected"),
    [
        ({"vcore": 2500, "memory": 5000}, False, Limits(memory_bytes=5000, vcore=2500, processes=MAX_PROCESSES)),
        ({"memory": 5000}, False, Limits(memory_bytes=5000, vcore=SMALL_SHARE, processes=MAX_PROCESSES)),
        ({"vcore": 1000}, True, Limits(processes=MAX_PROCESSES)),
    ],
)
def test_a_job_is_held_to_what_it_asked_for(planner, resources, exclusive, expected):
    assert planner.plan(start(resources=resources, exclusive=exclusive)).limits == expected


def test_an_exclusive_job_is_held_to_what_the_node_offers(planner):
    whole = msgspec.structs.replace(start(resources={"vcore": 8000, "memory": 64}, exclusive=True), whole=[8000])
    assert planner.plan(whole).limits == Limits(memory_bytes=64, vcore=8000, processes=MAX_PROCESSES)


def test_an_agent_that_limits_nothing_still_bounds_processes(tmp_path):
    planner = Planner(tmp_path / "state", tmp_path / "out", RunAs(), limited=False)
    planner.max_processes = 7
    assert planner.plan(start(resources={"vcore": 1000})).limits == Limits(processes=7)


def test_each_user_has_an_own_directory_for_output(tmp_path):
    planner = Planner(tmp_path / "state", tmp_path / "out", AsSubmitter())
    launch = planner.plan(start())
    own = tmp_path / "out" / ME.pw_name
    assert launch.stdout == f"{own}/job-17.out"
    assert own.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o711
    assert (launch.cwd.rstrip("/"), launch.may_lack_cwd) == (ME.pw_dir.rstrip("/"), True)
    assert launch.environment["HOME"] == ME.pw_dir


def test_a_directory_that_the_job_names_must_exist(tmp_path):
    launch = Planner(tmp_path / "state", tmp_path / "out", AsSubmitter()).plan(start(cwd="run"))
    assert (launch.cwd, launch.may_lack_cwd) == (f"{ME.pw_dir.rstrip('/')}/run", False)


def test_a_job_whose_user_may_not_run_here_is_refused(tmp_path):
    job = StartJob(
        allocation=5, job=17, user="nobody-here", name="fit", nodes=["n1"], rank=0, resources={},
        request=JobRequest(command=["true"]),
    )  # fmt: skip
    with pytest.raises(Refused, match="no such user"):
        Planner(tmp_path / "state", tmp_path / "out", AsSubmitter()).plan(job)


def test_no_directory_for_output_says_what_to_do(tmp_path):
    planner = Planner(tmp_path / "state", tmp_path / "out", AsSubmitter())
    (tmp_path / "out" / ME.pw_name).write_text("a file is in the way")
    with pytest.raises(Refused, match="name files by --output and --error") as refused:
        planner.plan(start())
    assert refused.value.code == "no_output"


def test_a_script_is_run_from_its_file_with_its_arguments(planner, tmp_path):
    launch = planner.plan(start(script=b"#!/bin/sh\n", command=["train.sh", "a b"], nodes=["n1", "n2"]))
    path = tmp_path / "out" / ".scripts" / "unnamed" / "5"
    assert (launch.command, launch.append) == ([str(path), "a b"], False)
    assert path.read_bytes() == b"#!/bin/sh\n"


def test_a_further_node_of_a_script_runs_something_of_rankds_whatever_the_job_asks_for(planner, tmp_path):
    launch = planner.plan(
        start(holds=True, command=["train.sh"], nodes=["n1", "n2"], rank=1, cwd="/nowhere", stdin="/nowhere/in",
              stdout="/nowhere/out", env={"PATH": "/nowhere", "LD_PRELOAD": "x"})
    )  # fmt: skip
    assert (launch.command[0], launch.cwd, launch.stdin, launch.stdout) == ("sleep", "/", None, "/dev/null")
    assert "/bin" in launch.environment["PATH"]
    assert "LD_PRELOAD" not in launch.environment
    assert launch.environment[STATE_VARIABLE] == str(tmp_path / "state")
    assert launch.environment["RANKD_ALLOCATION_ID"] == "5"


def test_a_directory_that_can_not_hold_scripts_ends_the_job_and_says_so(planner, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(Refused, match=r"can't write the script to .*/out") as refused:
        planner.plan(start(script=b"#!/bin/sh\n", stdout="/dev/null", stderr="/dev/null"))
    assert refused.value.code == "no_script_file"
