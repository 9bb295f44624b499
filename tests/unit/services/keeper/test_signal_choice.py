"""Which processes of a job get a signal: those that it has when the signal is sent, once each."""

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from rankd.services.keeper.cgroup_job import JobGroup
from rankd.services.keeper.cgroup_layout import Limits, Place
from rankd.services.keeper.job_run import JobRun
from rankd.services.keeper.process import Process


@pytest.fixture
def fork():
    """Makes processes that wait, each in a process group of its own, or in this one."""
    with ExitStack() as made:

        def make(group: int = 0) -> int:
            process = made.enter_context(subprocess.Popen(["sleep", "600"], process_group=group))
            made.callback(process.kill)
            return process.pid

        yield make


@pytest.fixture
def job(fork, tmp_path):
    """A run with a leader, and a function that names the members of its group."""
    (tmp_path / "1").mkdir()
    run = JobRun.__new__(JobRun)
    run._group = JobGroup("1", Limits(), {"pids": Place(base=tmp_path, top=tmp_path, version=2)})
    run._order = SimpleNamespace(plan=SimpleNamespace(holds=False))
    run._steps = {}
    run._process = Process.__new__(Process)
    run._process.pid, run._process._reaped = fork(), False

    def has(*pids):
        (tmp_path / "1" / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    return run, has


def test_what_a_handler_starts_and_what_leaves_the_group_get_no_further_signal(fork, job, monkeypatch):
    run, has = job
    leader = run._process.pid
    leaver, other, child = fork(leader), fork(), fork()
    has(leader, leaver, other)
    to_group, one_by_one = [], []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, number: one_by_one.append((pid_of(fd), number)))

    def killpg(group, number):
        to_group.append((group, number))
        os.setpgid(leaver, 0)
        has(leader, leaver, other, child)

    monkeypatch.setattr(os, "killpg", killpg)
    run._signal_all(signal.SIGUSR1)
    assert (to_group, one_by_one) == ([(leader, signal.SIGUSR1)], [(other, signal.SIGUSR1)])


def pid_of(descriptor: int) -> int:
    """The process of a pidfd."""
    with Path(f"/proc/self/fdinfo/{descriptor}").open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))
