"""Signals to processes that the keeper may not signal."""

import os
import subprocess

import pytest

from rankd.services.keeper.process import Process

NOBODY = 65_534


@pytest.fixture
def group_of_root():
    """A process group that only root may signal."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        yield sleeper.pid
        sleeper.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a process that somebody else may not signal")
def test_processes_of_another_user_end_nothing_of_the_keeper(group_of_root):
    """A job such as `sudo sleep` runs as root. The error ended the connection to the agent, and all jobs with it."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            process = Process.__new__(Process)
            process.pid, process._reaped = group_of_root, False
            process.signal_group(0)  # no signal is sent, only the right to send one is looked at
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
