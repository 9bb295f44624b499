"""A program that uses NVIDIA's GPUs by the driver's library alone: what it sees, then memory and time on the first one.

It is run by jobs and beside them. It writes what it sees to the file OUT as JSON: the GPUs' UUIDs, and which of the
files it was asked to open it could open. Then it keeps the first GPU busy until the file STOP exists.
Usage: cuda_load.py OUT STOP [FILE ...]
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

MEMORY_BYTES = 512 * 2**20
CYCLES = 50_000_000
"""Of one run on the GPU: some hundredths of a second."""
NO_DEVICE = 100
"""What the library answers to a process that may use no GPU."""
SPIN = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %p<2>;
    .reg .u64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
"""
"""Waits for a number of the GPU's cycles."""


class Uuid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 16)]


class Cuda:
    """The driver's interface, where every call that fails raises."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.has_devices = self._library.cuInit(0) != NO_DEVICE
        if self.has_devices:
            self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        error = getattr(self._library, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} answered {error}")

    def uuids(self) -> list[str]:
        """The UUIDs of the GPUs that this process may use; of parts of a card, those of the parts."""
        number = ctypes.c_int()
        if self.has_devices:
            self.call("cuDeviceGetCount", ctypes.byref(number))
        return [self._uuid(index) for index in range(number.value)]

    def _uuid(self, index: int) -> str:
        device, uuid = ctypes.c_int(), Uuid()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDeviceGetUuid_v2", ctypes.byref(uuid), device)
        digits = bytes(uuid.bytes).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def keep_busy(self, stop: Path) -> None:
        """Memory and time on the first GPU, until the file is there."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        memory, module, function = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MEMORY_BYTES))
        self.call("cuModuleLoadData", ctypes.byref(module), SPIN)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
        cycles = ctypes.c_uint64(CYCLES)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(cycles), ctypes.c_void_p))
        while not stop.exists():
            self.call("cuLaunchKernel", function, *(1, 1, 1), *(1, 1, 1), 0, None, parameters, None)
            self.call("cuCtxSynchronize")


def may_open(path: str) -> bool:
    try:
        with open(path, "rb"):  # noqa: PTH123 - a file of a device
            return True
    except OSError:
        return False


def main(out: str, stop: str, *files: str) -> None:
    cuda = Cuda()
    seen = {"uuids": cuda.uuids(), "opened": [path for path in files if may_open(path)]}
    made = Path(f"{out}.new")
    made.write_text(json.dumps(seen))
    made.rename(out)
    if seen["uuids"]:
        cuda.keep_busy(Path(stop))


if __name__ == "__main__":
    main(*sys.argv[1:])
