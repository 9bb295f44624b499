"""Hides a process from others of the same user: jobs that run as the agent's user must not read what the agent knows.

The kernel lets a process read the environment, the memory and the open files of any other process of its user, under
``/proc/PID``. It does not if the other process is not dumpable. A command that is executed is dumpable again, so jobs
are as they always are. Root sees everything in any case.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_DUMPABLE = 4


def hide() -> None:
    """Hide this process, unless it is root's: root's processes are hidden from all other users already."""
    if os.geteuid() != 0:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
