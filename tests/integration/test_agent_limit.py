"""Jobs that are held to the memory and cores that they asked for, by real control groups."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from integration.test_agent import keeper_of, stage, start_of
from msgspec.structs import replace
from watch import appears, gone

from rankd.services.agent_cgroup import (
    CPU,
    MEMORY,
    ControlGroups,
    Limits,
    Mount,
    limit_files,
    own_directory,
    parse_mounts,
    parse_own,
)

MIB = 2**20


def limited(controller: str) -> bool:
    return f"{controller} of jobs NOT" not in ControlGroups("test").statement.replace("memory and cpu", controller)


needs_memory = pytest.mark.skipif(not limited(MEMORY), reason="this host gives us no memory groups")
needs_cpu = pytest.mark.skipif(not limited(CPU), reason="this host gives us no cpu groups")

EATER = "data = bytearray(int(__import__('sys').argv[1]) * 2**20); print(len(data))"


def start(allocation: int, *command: str, resources: dict[str, int], **request):
    return replace(start_of(allocation, *command, **request), resources=resources)


@needs_memory
async def test_who_goes_over_the_memory_limit_is_ended_and_told(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        eat = (sys.executable, "-c", EATER)
        await intake.order(starts=[start(1, *eat, "300", resources={"memory": 64 * MIB})])
        await intake.order(starts=[start(2, *eat, "30", resources={"memory": 64 * MIB})])
        over, under = await intake.ended(1), await intake.ended(2)
    assert (over.cause, over.signal) == ("out_of_memory", 9)
    assert "memory limit" in over.message
    assert (under.cause, under.exit_status) == (None, 0)


@needs_memory
async def test_what_leaves_the_session_is_killed_with_its_job(broker, tmp_path):
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & while ! [ -s {tmp_path}/pid ]; do :; done"
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "sh", "-c", script, resources={"memory": 64 * MIB})])
        pid = int(await appears(tmp_path / "pid"))
        assert (await intake.ended(1)).exit_status == 0
        await gone(pid)


@needs_cpu
async def test_who_asks_for_a_tenth_of_a_core_gets_no_more(broker, tmp_path):
    spin = "import time\nend = time.time() + 1\nwhile time.time() < end: pass\nprint(time.process_time())"
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, sys.executable, "-c", spin, resources={"vcore": 100})])
        end = await intake.ended(1)
    assert end.exit_status == 0
    assert float(Path(end.stdout).read_text()) < 0.5


async def test_whole_nodes_and_agents_that_are_told_so_limit_nothing(broker, tmp_path):
    eat = (sys.executable, "-c", EATER, "100")
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, *eat, resources={"memory": 16 * MIB}, exclusive=True)])
        assert (await intake.ended(1)).exit_status == 0
    async with stage(broker, tmp_path, limited=False) as intake:
        await intake.order(starts=[start(2, *eat, resources={"memory": 16 * MIB})])
        assert (await intake.ended(2)).exit_status == 0


async def test_no_group_is_left(broker, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    async with stage(broker, tmp_path) as intake:
        script = f"echo $$ > {tmp_path}/pid; grep -o 'rankd-.*' /proc/self/cgroup; read line < {tmp_path}/fifo"
        await intake.order(starts=[start(1, "sh", "-c", script, resources={"memory": 64 * MIB, "vcore": 1000})])
        keeper = keeper_of(int(await appears(tmp_path / "pid")))
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        groups = set(Path((await intake.ended(1)).stdout).read_text().split())
    await gone(keeper)
    left = [path for path in Path("/sys/fs/cgroup").rglob("rankd-*") if path.name in groups]
    assert left == []


def test_the_statement_says_what_is_not_limited_and_why(tmp_path):
    (tmp_path / "cgroup").write_text("4:memory:/a\n0::/a\n")
    (tmp_path / "mountinfo").write_text("1 2 0:1 / /no/such/place rw - cgroup cgroup rw,memory\n")
    said = ControlGroups("test", tmp_path).statement
    assert said == "memory and cpu of jobs NOT limited (memory: /no/such/place/a: No such file or directory)"


MOUNTINFO = """\
24 1 0:22 / /proc rw,nosuid - proc proc rw
30 29 0:26 / /sys/fs/cgroup/memory rw shared:8 - cgroup cgroup rw,memory
31 29 0:27 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""


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
             CPU: [("cpu.cfs_quota_us", "250000")]}),
        (2, {MEMORY: [("memory.max", "5000"), ("memory.swap.max", "0")], CPU: [("cpu.max", "250000 100000")]}),
    ],
)  # fmt: skip
def test_limits_are_written_as_each_version_wants_them(version, files):
    assert limit_files(version, Limits(memory_bytes=5000, vcore=2500)) == files
    assert limit_files(version, Limits()) == {}
