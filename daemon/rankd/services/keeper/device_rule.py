"""Which devices a job may not open, in the forms that control groups of version 1 and 2 understand.

A device is known by its number, since anyone who may make device files can give it further paths. All that is not
denied stays as on the host. Sources: the kernel's cgroup-v1/devices.rst, and linux/bpf.h for version 2, whose groups
have programs in place of lists.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from typing import Literal

import msgspec

MOST_DENIED = 512
"""More than a node can have: eight GPUs of seven instances with three files each are 168."""

ALLOWS_ALL = "a *:* rwm"
"""The list of a version 1 group that allows every device which is not denied."""

_TYPE, _MAJOR, _MINOR, _RESULT = 2, 3, 4, 0
"""Registers of the program."""
_CONTEXT = 1
_TYPES = {"b": 1, "c": 2}
_TYPE_MASK = 0xFFFF
_LOAD, _AND, _UNLESS, _SET, _EXIT = 0x61, 0x57, 0x55, 0xB7, 0x95
"""BPF_LDX|BPF_MEM|BPF_W, BPF_ALU64|BPF_AND|BPF_K, BPF_JMP|BPF_JNE|BPF_K, BPF_ALU64|BPF_MOV|BPF_K, BPF_JMP|BPF_EXIT"""


class DeviceNumber(msgspec.Struct, frozen=True, order=True):
    """The number by which the kernel knows a device; ``kind`` is ``c`` (character) or ``b`` (block)."""

    kind: Literal["c", "b"]
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.kind} {self.major}:{self.minor}"


def number_of(path: str) -> DeviceNumber | None:
    """The number of the device that a path leads to at present; None if it leads to something else.

    Raises:
        OSError: there is nothing at this path, or it can't be looked at.
    """
    found = os.stat(path)  # noqa: PTH116 - as in cgroup_file
    kind: Literal["c", "b"] | None = (
        "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else None
    )
    return DeviceNumber(kind, os.major(found.st_rdev), os.minor(found.st_rdev)) if kind else None


def denial(number: DeviceNumber) -> str:
    """What is written to ``devices.deny`` of a version 1 group: no reading, writing, or making of device files.

    >>> denial(DeviceNumber("c", 195, 0))
    'c 195:0 rwm'
    """
    return f"{number} rwm"


def program(denied: Iterable[DeviceNumber]) -> bytes:
    """The program of a version 2 group: the kernel runs it for each access, and forbids that if the result is 0."""
    steps = [
        _step(_LOAD, _TYPE, _CONTEXT, 0),
        _step(_AND, _TYPE, value=_TYPE_MASK),
        _step(_LOAD, _MAJOR, _CONTEXT, 4),
        _step(_LOAD, _MINOR, _CONTEXT, 8),
    ]
    for number in denied:
        steps += [
            _step(_UNLESS, _TYPE, offset=4, value=_TYPES[number.kind]),
            _step(_UNLESS, _MAJOR, offset=3, value=number.major),
            _step(_UNLESS, _MINOR, offset=2, value=number.minor),
            _step(_SET, _RESULT, value=0),
            _step(_EXIT),
        ]
    return b"".join([*steps, _step(_SET, _RESULT, value=1), _step(_EXIT)])


def _step(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """An instruction; ``offset`` counts bytes of the context, or instructions to jump over."""
    return struct.pack("=BBhi", code, source << 4 | to, offset, value)
