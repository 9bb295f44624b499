"""The process's own figures, against what the system says of it."""

import os
import resource
import time

from rankd.services.runtime.metric.process import disk_figures, process_figures


def test_this_process_is_measured():
    found = {figure.name: figure.value for figure in process_figures("intake")}
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert 0 <= found["process_cpu_seconds_total"] <= used.ru_utime + used.ru_stime + 1
    assert 2**20 < found["process_resident_memory_bytes"] <= used.ru_maxrss * 1024
    assert found["process_start_time_seconds"] < time.time()
    assert 0 < found["process_open_fds"] <= found["process_max_fds"]


def test_a_disk_is_measured_and_one_that_is_gone_is_left_out(tmp_path):
    free, size = disk_figures("intake", "records", str(tmp_path))
    assert free.labels == ("intake", "records")
    assert 0 <= free.value <= size.value
    assert size.value == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert disk_figures("intake", "records", str(tmp_path / "none")) == []
