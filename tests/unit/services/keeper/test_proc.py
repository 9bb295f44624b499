"""What /proc contains about processes."""

import os
import subprocess

from rankd.services.keeper.proc import all_pids, is_of_group, start_time_of

NO_PID = 2**22 + 1
"""Larger than any pid."""


def test_this_process_is_found():
    assert os.getpid() in all_pids()
    assert start_time_of(os.getpid()) == start_time_of(os.getpid()) is not None
    assert is_of_group(os.getpid(), os.getpgid(0))
    assert not is_of_group(os.getpid(), NO_PID)


def test_a_later_process_has_a_later_start_time_whatever_its_name(tmp_path):
    odd = tmp_path / "a) Z 1 ("
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "1000"], start_new_session=True) as process:
        assert start_time_of(process.pid) >= start_time_of(os.getpid())
        assert is_of_group(process.pid, process.pid)
        process.kill()


def test_a_zombie_is_not_alive():
    with subprocess.Popen(["true"], start_new_session=True) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time_of(process.pid) is None
        assert not is_of_group(process.pid, process.pid)


def test_a_process_that_does_not_exist_has_no_start_time():
    assert start_time_of(NO_PID) is None
    assert not is_of_group(NO_PID, NO_PID)
