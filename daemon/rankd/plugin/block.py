"""The columns of jobs as one block of memory, which is shared with workers if there are many jobs.

All workers of a pass read the same block. The next pass writes it again once no worker reads it. A worker that is late
keeps its block until it answers or ends.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd.core.ranking.columns import N_INTEGERS, JobColumns

_FIELDS = JobColumns.__struct_fields__
_ITEM = 8

JOB_BYTES = _ITEM * len(_FIELDS)
"""Bytes per job."""


def write_columns(jobs: JobColumns, buffer: memoryview | mmap.mmap | bytearray) -> None:
    """Write all columns, one after the other."""
    n = len(jobs)
    for place, name in enumerate(_FIELDS):
        dtype = np.int64 if place < N_INTEGERS else np.float64
        target: NDArray[np.generic] = np.frombuffer(buffer, dtype, count=n, offset=place * n * _ITEM)
        np.copyto(target, getattr(jobs, name))


def read_columns(buffer: memoryview | mmap.mmap | bytearray | bytes, n: int) -> JobColumns:
    """The columns in the buffer, without a copy, read-only."""
    columns: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(_FIELDS):
        dtype = np.int64 if place < N_INTEGERS else np.float64
        columns[name] = np.frombuffer(buffer, dtype, count=n, offset=place * n * _ITEM)
        columns[name].flags.writeable = False
    return JobColumns(**columns)


class Block:
    """Memory that other processes can map by its ``descriptor``."""

    def __init__(self, size: int) -> None:
        self.descriptor = os.memfd_create("rankd-jobs")
        self.size = size
        self.readers = 0
        self.jobs: JobColumns | None = None
        """The written jobs, while the block has readers; else None."""
        os.ftruncate(self.descriptor, size)
        self._map = mmap.mmap(self.descriptor, size)

    def write(self, jobs: JobColumns) -> None:
        """Write these columns into the block."""
        write_columns(jobs, self._map)
        self.jobs = jobs

    def close(self) -> None:
        """Release the memory; processes that have mapped it keep it."""
        os.close(self.descriptor)
        self._map.close()


class Blocks:
    """The blocks of this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._blocks: list[Block] = []

    def hold(self, jobs: JobColumns) -> Block:
        """A block with these jobs; call :meth:`give_back` when its reader is done."""
        with self._guard:
            block = next((block for block in self._blocks if block.jobs is jobs), None)
            if block is None:
                block = self._free(len(jobs) * JOB_BYTES)
                block.write(jobs)
            block.readers += 1
            return block

    def _free(self, size: int) -> Block:
        """A block without readers that is large enough and at most four times too large; a new one if there is none."""
        unread = [block for block in self._blocks if not block.readers]
        for block in unread:
            if size <= block.size <= 4 * size:
                return block
            self._blocks.remove(block)
            block.close()
        block = Block(size + size // 8)
        self._blocks.append(block)
        return block

    def give_back(self, block: Block) -> None:
        """Note that one reader has finished with the block."""
        with self._guard:
            block.readers -= 1
            if not block.readers:
                block.jobs = None
