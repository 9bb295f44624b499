"""This process's own use of the machine, as Linux reports it. Elsewhere there are no such figures."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from pathlib import Path

from rankd.core.metric.figure import Figure

_PROC = Path("/proc/self")


def process_figures(service: str) -> list[Figure]:
    """Processor time, memory, files and start of this process, under Prometheus' usual names."""
    labels = (service,)
    with suppress(OSError, ValueError, IndexError, AttributeError):
        # after the name in parentheses, which may hold anything: see proc(5)
        fields = (_PROC / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)  # /proc/stat may be hidden from a service
        return [
            Figure("process_cpu_seconds_total", (int(fields[11]) + int(fields[12])) / ticks, labels),
            Figure("process_virtual_memory_bytes", int(fields[20]), labels),
            Figure("process_resident_memory_bytes", int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), labels),
            Figure("process_start_time_seconds", booted + int(fields[19]) / ticks, labels),
            Figure("process_open_fds", len(os.listdir(_PROC / "fd")), labels),  # noqa: PTH208 - only their number counts
            Figure("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0], labels),
        ]
    return []


def disk_figures(service: str, disk: str, path: str) -> list[Figure]:
    """How full the disk is on which ``path`` is; nothing if it can't be asked."""
    with suppress(OSError):
        found = os.statvfs(path)
        return [
            Figure("rankd_disk_free_bytes", found.f_bavail * found.f_frsize, (service, disk)),
            Figure("rankd_disk_size_bytes", found.f_blocks * found.f_frsize, (service, disk)),
        ]
    return []
