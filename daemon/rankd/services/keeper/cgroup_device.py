"""Denying devices to the processes of a control group: by its list (version 1) or by a program (version 2)."""

from __future__ import annotations

import errno
import resource
from collections.abc import Sequence
from contextlib import suppress

from rankd.services.keeper import bpf
from rankd.services.keeper.cgroup_file import read, write
from rankd.services.keeper.device_rule import ALLOWS_ALL, MOST_DENIED, DeviceNumber, denial, program

_TRIED = DeviceNumber("c", 1, 3)
"""/dev/null, which is denied to an empty group: the kernel checks our rights only for a real denial."""


def deny(directory: str, version: int, denied: Sequence[DeviceNumber]) -> None:
    """Deny these devices to all processes that are in the group or below it, now or later.

    Raises:
        OSError: the kernel does not permit it, or there are too many devices.
    """
    if len(denied) > MOST_DENIED:
        raise OSError(errno.E2BIG, f"{len(denied)} devices are more than the {MOST_DENIED} that can be denied")
    if version == 1:
        for number in denied:
            write(f"{directory}/devices.deny", denial(number))
    else:
        bpf.attach(program(denied), directory)


def check_denies(directory: str, version: int) -> None:
    """Check on an empty group that devices can be denied there.

    Raises:
        OSError: they can't. A version 1 group below one with a list of what is allowed, as in some containers, ignores
            a denial that a wider line of this list covers.
    """
    if version == 1 and read(f"{directory}/devices.list").decode().split("\n")[0].strip() != ALLOWS_ALL:
        raise OSError(errno.EPERM, "it lists what is allowed, from which single devices can't be taken")
    deny(directory, version, [_TRIED])


def raise_locked_memory() -> None:
    """Raise this process's limit of locked memory: before Linux 5.11, each program of a group counts towards it."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
