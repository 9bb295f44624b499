"""Jobs that are held to the memory and cores that they asked for, by real control groups."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from integration.test_agent import keeper_of, stage, start_of
from msgspec.structs import replace
from watch import SLOWNESS, alive, appears, gone

from rankd.services.keeper.cgroup import ControlGroups
from rankd.services.keeper.cgroup_file import removed
from rankd.services.keeper.cgroup_job import JobGroup, measured
from rankd.services.keeper.cgroup_layout import (
    CPU,
    CPUACCT,
    MEMORY,
    PIDS,
    Limits,
    Place,
)

MIB = 2**20


def limited(controller: str) -> bool:
    return controller in ControlGroups(f"test{os.getpid()}").limited


needs_memory = pytest.mark.skipif(not limited(MEMORY), reason="this host gives us no memory groups")
needs_pids = pytest.mark.skipif(not limited(PIDS), reason="this host gives us no pids groups")
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
        parent = f"{sys.executable} -c '{EATER.replace(chr(39), chr(34))}' 300; exit 0"
        await intake.order(starts=[start(3, "sh", "-c", parent, resources={"memory": 64 * MIB})])
        over, under, child = await intake.ended(1), await intake.ended(2), await intake.ended(3)
    assert (over.cause, over.signal) == ("out_of_memory", 9)
    assert over.message.startswith("killed for memory: asked for 64 MiB, peak ")
    assert over.message.endswith(" on n1; ask for more with --mem")
    assert (under.cause, under.exit_status) == (None, 0)
    assert (child.cause, child.exit_status) == ("out_of_memory", 0)


@needs_memory
async def test_what_leaves_the_session_is_killed_with_its_job(broker, tmp_path):
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & while ! [ -s {tmp_path}/pid ]; do :; done"
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "sh", "-c", script, resources={"memory": 64 * MIB})])
        pid = int(await appears(tmp_path / "pid"))
        assert (await intake.ended(1)).exit_status == 0
        await gone(pid)


WHOLE = {"no amounts": ({}, False), "a whole node": ({"vcore": 1000}, True)}


@needs_pids
@pytest.mark.parametrize("kind", WHOLE)
async def test_every_job_has_a_group_that_is_empty_before_its_end_is_told(broker, tmp_path, kind):
    """Also one that asks for nothing, and one that has its node for itself."""
    resources, exclusive = WHOLE[kind]
    script = f"for i in 1 2 3; do setsid sh -c 'echo $$ >> {tmp_path}/pids; exec sleep 1000' & done; "
    script += f"until [ $(wc -l < {tmp_path}/pids) = 3 ]; do :; done 2> /dev/null"
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "sh", "-c", script, resources=resources, exclusive=exclusive)])
        assert (await intake.ended(1)).exit_status == 0
        pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 3
        assert not any(alive(pid) for pid in pids)


@needs_pids
async def test_a_time_limit_ends_what_has_left_the_session(broker, tmp_path):
    script = f'setsid sh -c \'trap "echo term > {tmp_path}/term" TERM; echo $$ > {tmp_path}/pid; '
    script += "while :; do sleep 0.05; done' & sleep 1000"
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "sh", "-c", script, resources={}, time_limit_s=5 * SLOWNESS)])
        pid = int(await appears(tmp_path / "pid"))
        assert (await intake.ended(1)).cause == "timeout"
        assert not alive(pid)
    assert (tmp_path / "term").read_text() == "term\n"


FORKER = """
import os, sys, time
made = 0
try:
    while made < 500:
        if not os.fork():
            time.sleep(1000)
        made += 1
except OSError as error:
    print(made, error.errno, flush=True)
"""


@needs_pids
async def test_a_job_has_no_more_processes_than_configured(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.until(lambda: intake.heartbeats)
        intake.max_processes = 40
        seen = len(intake.heartbeats)
        await intake.until(lambda: len(intake.heartbeats) > seen + 1)
        await intake.order(starts=[start(1, sys.executable, "-c", FORKER, resources={}, exclusive=True)])
        end = await intake.ended(1)
    assert Path(end.stdout).read_text().split() == ["39", str(errno.EAGAIN)]


ITS_CORES = """
import os
from pathlib import Path
def groups():
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for mount in Path("/proc/self/mountinfo").read_text().splitlines():
            left, right = mount.split(" - ")
            root, point = left.split()[3:5]
            kind, *_, options = right.split()
            one = kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options.split(",")
            if one or (kind == "cgroup2" and not controllers):
                yield Path(point, os.path.relpath(path, root))
def text(name):
    return (group / name).read_text()
[group] = [group for group in groups() if (group / "cpu.max").exists() or (group / "cpu.cfs_quota_us").exists()]
one = (group / "cpu.cfs_quota_us").exists()
quota, period = (text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")) if one else text("cpu.max").split()
print(quota.strip(), period.strip(), flush=True)
if quota.strip() not in ("-1", "max"):
    (group / ("cpu.shares" if one else "cpu.weight")).write_text("10000")  # a busy machine gives it enough to be held
    while "nr_throttled 0" in text("cpu.stat"):
        pass
    print("was held to it")
"""


async def share_of(broker, tmp_path, resources: dict[str, int]) -> list[str]:
    """What the files of the job's own group say; the job goes on until the kernel has held it to its share."""
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, sys.executable, "-c", ITS_CORES, resources=resources)])
        end = await intake.ended(1)
    assert end.exit_status == 0
    return Path(end.stdout).read_text().splitlines()


@needs_cpu
@pytest.mark.parametrize("resources", [{}, {"vcore": 0}])
async def test_who_asks_for_no_core_gets_a_small_share(broker, tmp_path, resources):
    assert await share_of(broker, tmp_path, resources) == ["10000 100000", "was held to it"]


@needs_cpu
async def test_who_asks_for_a_tenth_of_a_core_gets_no_more(broker, tmp_path):
    assert await share_of(broker, tmp_path, {"vcore": 100}) == ["10000 100000", "was held to it"]


@needs_cpu
async def test_a_limit_that_cannot_be_set_is_named_with_its_file_and_its_value(broker, tmp_path):
    """It was "can't open None: Invalid argument"."""
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "true", resources={"vcore": 10**15})])  # more than the kernel can count
        end = await intake.ended(1)
    assert (end.cause, end.exit_status) == ("start_failed", 126)
    named = r"can't write '100000000000000000( 100000)?' to /\S+/rankd-\S+/cpu\.(cfs_quota_us|max): Invalid argument"
    assert re.fullmatch(named, end.message)


@needs_cpu
@needs_memory
async def test_memory_and_time_are_of_all_that_ran_in_the_job(broker, tmp_path):
    """Also of children that nobody waited for, and not of what started the job."""
    (tmp_path / "eat").write_text(
        "import time\nx = bytearray(60 * 2**20)\nwhile time.process_time() < 0.5: pass\n"
        "print(flush=True)\ntime.sleep(1000)\n"
    )
    script = f"{sys.executable} eat > fifo & read line < fifo; kill -KILL $!"
    os.mkfifo(tmp_path / "fifo")
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start(1, "sh", "-c", script, resources={"vcore": 2000}, cwd=str(tmp_path))])
        await intake.order(starts=[start(2, "true", resources={"vcore": 1000})])
        eaten, nothing = await intake.ended(1), await intake.ended(2)
    assert (eaten.measured, nothing.measured) == ("cgroup", "cgroup")
    assert eaten.cpu_s > 0.5
    assert eaten.max_rss_bytes > 60 * MIB
    assert nothing.max_rss_bytes < 8 * MIB


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
    why = "memory: /no/such/place/a: No such file or directory"
    assert said == f"memory, cpu and pids of jobs NOT limited ({why})"


@pytest.fixture
def version_2(tmp_path):
    """Groups in this host's hierarchy of version 2 alone, whatever else it has; none of its controllers is needed."""
    lines = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    (tmp_path / "cgroup").write_text(Path("/proc/self/cgroup").read_text())
    groups = ControlGroups(f"v2-{os.getpid()}", tmp_path)
    group = groups.group("1", Limits())
    if not group.directories:
        pytest.skip("this host has no control groups of version 2 that we can use")
    group.make()
    yield group
    group.kill()
    while not groups.is_clean():
        pass


def test_with_version_2_a_group_is_counted_killed_and_removed_with_those_below_it(version_2, tmp_path):
    [directory], [file] = version_2.directories, version_2.joins()
    os.mkfifo(tmp_path / "ready")
    script = f"echo 0 > {file}; mkdir {directory}/below; "
    script += f"for i in 1 2; do setsid sh -c 'echo 0 > {directory}/below/cgroup.procs; echo > {tmp_path}/ready; "
    script += "exec sleep 1000' & done; exec sleep 1000"
    with subprocess.Popen(["sh", "-c", script]) as leader:
        with (tmp_path / "ready").open() as ready:
            while len(version_2.members()) < 3 and ready.read():
                pass
        while len(version_2.members()) < 3:
            pass
        version_2.kill()
        assert leader.wait() == -9
    while version_2.members():
        pass
    assert version_2.used().cpu_s > 0
    assert removed(version_2.directories) == []
    assert not Path(directory).exists()


def test_what_no_group_counts_is_by_what_was_waited_for(tmp_path):
    group = JobGroup("job", Limits(), {})
    assert (group.used(), measured(group.used())) == ((None, None), "wait")
    (tmp_path / "job").mkdir()
    (tmp_path / "job/cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    group = JobGroup("job", Limits(), {name: Place(tmp_path, 2, tmp_path) for name in (CPUACCT, MEMORY)})
    assert (group.used(), measured(group.used())) == ((1.5, None), "cgroup_cpu")
    (tmp_path / "job/memory.peak").write_text("4096\n")
    assert (group.used(), measured(group.used())) == ((1.5, 4096), "cgroup")
