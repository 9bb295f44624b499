import ctypes
import os
from pathlib import Path

import pytest

from rankd.services.runtime.hidden_process import hide

PR_SET_DUMPABLE = 4
USER = 12_345


def ends_well(action) -> bool:
    """Whether the action succeeds in a process of a user who is not root."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # as after the execution of a command
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_process_of_the_same_user_reads_nothing_of_a_hidden_one(is_hidden):
    def be_looked_at():
        if is_hidden:
            hide()
        mine = f"/proc/{os.getpid()}"
        for file in ("environ", "maps", "auxv"):
            assert ends_well_again(lambda file=file: Path(mine, file).read_bytes()) is not is_hidden
        handle = os.open(os.devnull, os.O_RDONLY)
        assert Path(f"/proc/self/fd/{handle}").stat()  # it can still look at itself, as the keeper does

    assert ends_well(be_looked_at)


def ends_well_again(action) -> bool:
    """The same in a child of that process, of the same user."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
