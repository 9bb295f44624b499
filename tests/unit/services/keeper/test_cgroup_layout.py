"""Where control groups are, what they allow, and how limits are written into their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankd.services.keeper.cgroup_layout import (
    CPU,
    MEMORY,
    PIDS,
    Limits,
    Mount,
    Place,
    cpu_allowance,
    limit_files,
    memory_allowance,
    own_allowances,
    own_directory,
    parse_mounts,
    parse_own,
)

MOUNTINFO = """\
24 1 0:22 / /proc rw,nosuid - proc proc rw
30 29 0:26 / /sys/fs/cgroup/memory rw shared:8 - cgroup cgroup rw,memory
31 29 0:27 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""


def a_tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_what_a_group_and_those_above_it_allow_is_the_least_of_them(tmp_path):
    a_tree(tmp_path, {
        "two/cpu.max": "max 100000", "two/a/cpu.max": "60000 100000", "two/a/b/cpu.max": "250000 100000",
        "two/a/memory.max": "1000", "two/a/b/memory.max": "max",
        "one/a/cpu.cfs_quota_us": "150000", "one/a/cpu.cfs_period_us": "50000",
        "one/a/b/cpu.cfs_quota_us": "-1", "one/a/b/cpu.cfs_period_us": "100000",
        "one/memory.limit_in_bytes": "9223372036854771712", "one/a/memory.limit_in_bytes": "2000",
    })  # fmt: skip
    two, one = (Place(tmp_path / top / "a/b", version, tmp_path / top) for top, version in (("two", 2), ("one", 1)))
    assert (cpu_allowance(two), memory_allowance(two)) == (600, 1000)
    assert (cpu_allowance(one), memory_allowance(one)) == (3000, 2000)
    assert cpu_allowance(Place(tmp_path / "two", 2, tmp_path / "two")) is None
    a_tree(tmp_path, {
        "cgroup": "1:cpu:/a/b\n2:memory:/a/b\n0::/a/b\n",
        "mountinfo": f"1 2 0:1 / {tmp_path}/one rw - cgroup cgroup rw,cpu,memory\n"
                     f"1 2 0:1 / {tmp_path}/two rw - cgroup2 cgroup2 rw\n",
    })  # fmt: skip
    assert own_allowances(tmp_path) == (600, 1000)
    assert own_allowances(tmp_path / "nowhere") == (None, None)


def test_hierarchies_are_read_from_the_mounts():
    assert parse_mounts(MOUNTINFO) == [
        Mount("/sys/fs/cgroup/memory", "/", 1, frozenset({"rw", "memory"})),
        Mount("/sys/fs/cgroup/cpu", "/docker/x", 1, frozenset({"rw", "cpu", "cpuacct"})),
        Mount("/sys/fs/cgroup/unified", "/", 2, frozenset()),
    ]
    assert parse_own("4:memory:/a/b\n3:cpu,cpuacct:/\n0::/u\n") == {
        "memory": "/a/b",
        "cpu": "/",
        "cpuacct": "/",
        "": "/u",
    }


def test_a_container_sees_its_hierarchy_from_its_own_root_on():
    mount = Mount("/sys/fs/cgroup/cpu", "/docker/x", 1, frozenset({"cpu"}))
    assert own_directory(mount, "/docker/x") == Path("/sys/fs/cgroup/cpu")
    assert own_directory(mount, "/docker/x/y") == Path("/sys/fs/cgroup/cpu/y")


@pytest.mark.parametrize(
    ("version", "files"),
    [
        (1, {MEMORY: [("memory.limit_in_bytes", "5000"), ("memory.memsw.limit_in_bytes", "5000")],
             CPU: [("cpu.cfs_quota_us", "250000")], PIDS: [("pids.max", "99")]}),
        (2, {MEMORY: [("memory.max", "5000"), ("memory.swap.max", "0")], CPU: [("cpu.max", "250000 100000")],
             PIDS: [("pids.max", "99")]}),
    ],
)  # fmt: skip
def test_limits_are_written_as_each_version_wants_them(version, files):
    assert limit_files(version, Limits(memory_bytes=5000, vcore=2500, processes=99)) == files
    assert limit_files(version, Limits()) == {}
