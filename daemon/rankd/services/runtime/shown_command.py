"""The command line that ``ps`` and ``/proc/PID/cmdline`` show for this process.

A forked process shows the command line of the process that it was forked from. Its own is put in its place by the
call with which a container is restored, ``prctl(PR_SET_MM, PR_SET_MM_MAP)``. It needs no rights, and leaves the
environment where it is. A kernel without that call (``CONFIG_CHECKPOINT_RESTORE``) refuses, and nothing changes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_KEPT = 2**32 - 1
"""In place of a descriptor: the executable stays as it is."""

_FIELDS = {"start_code": 26, "end_code": 27, "start_data": 45, "end_data": 46, "start_brk": 47, "start_stack": 28}
_FIELDS |= {"env_start": 50, "env_end": 51}
"""Addresses and where ``/proc/self/stat`` has them, counted from 1 (proc(5))."""


class _Map(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk")),
        *((name, ctypes.c_uint64) for name in ("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv")),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


_texts: list[ctypes.Array[ctypes.c_char]] = []
"""What the kernel reads; it stays as long as the process."""


def show_command(words: Sequence[str]) -> bool:
    """Show these words; returns whether the kernel permits it."""
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    _texts.append(ctypes.create_string_buffer(text, len(text)))
    shown = _Map(exe_fd=_KEPT, arg_start=ctypes.addressof(_texts[-1]))
    shown.arg_end = shown.arg_start + len(text)
    values = ["0", "0", *Path("/proc/self/stat").read_text().rpartition(") ")[2].split()]
    for name, place in _FIELDS.items():
        setattr(shown, name, int(values[place - 1]))
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    shown.brk = libc.sbrk(ctypes.c_ssize_t(0))
    return bool(
        libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(shown), ctypes.c_size_t(ctypes.sizeof(shown)), 0) == 0
    )
