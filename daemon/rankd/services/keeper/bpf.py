"""Programs that decide on devices in version 2 groups, through the system call bpf(2).

A program belongs to its group: it stays while the group exists, whatever becomes of the process that attached it, and
the kernel removes it with the group. Nothing is pinned. It is attached beside the programs of the groups above, such
as systemd's for ``DeviceAllow=``; a device is allowed only if all of them allow it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "ppc64": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH, _PROG_QUERY = 5, 8, 16
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_ATTACH = 15, 6
_ALLOW_MULTI, _QUERY_EFFECTIVE = 2, 1
_STEP_BYTES = 8
_MOST_PROGRAMS = 64
NAME = b"rankd_devices"


def attach(program: bytes, directory: str) -> None:
    """Attach a program to a group, for all processes that are in it or below it, now or later.

    Raises:
        OSError: the kernel does not permit it; or the group then ignores programs of the groups above, which were
            attached to be replaced. The program is not attached then, or the group must be removed.
    """
    group = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = _effective(group)
        loaded = _load(program)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _CGROUP_DEVICE_ATTACH, _ALLOW_MULTI))
        finally:
            os.close(loaded)
        if not before <= _effective(group):
            message = "a program of a group above would no longer hold for jobs"
            raise OSError(errno.EPERM, message, directory)
    finally:
        os.close(group)


def programs_of(directory: str) -> set[int]:
    """The ids of the programs that decide on devices for the processes of a group.

    Raises:
        OSError: the kernel does not tell.
    """
    group = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _effective(group)
    finally:
        os.close(group)


def _load(program: bytes) -> int:
    steps, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"Apache-2.0")
    content = struct.pack(
        "=IIQQIIQII16s",
        _CGROUP_DEVICE_PROGRAM,
        len(program) // _STEP_BYTES,
        ctypes.addressof(steps),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
        NAME,
    )
    return _bpf(_PROG_LOAD, content)


def _effective(group: int) -> set[int]:
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    request = struct.pack(
        "=IIIIQI4x",
        group,
        _CGROUP_DEVICE_ATTACH,
        _QUERY_EFFECTIVE,
        0,
        ctypes.addressof(ids),
        _MOST_PROGRAMS,
    )
    answer = ctypes.create_string_buffer(request, len(request))
    _bpf(_PROG_QUERY, answer)
    count = struct.unpack_from("=I", answer, 24)[0]
    return set(ids[:count])


def _bpf(command: int, content: bytes | ctypes.Array[ctypes.c_char]) -> int:
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"rankd does not know the system calls of {platform.machine()}")
    held = ctypes.create_string_buffer(content, len(content)) if isinstance(content, bytes) else content
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, command, held, len(held)))
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"bpf: {os.strerror(failed)}")
    return result
