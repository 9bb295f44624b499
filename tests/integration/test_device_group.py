"""Jobs that can't open the devices of other jobs, by real control groups of both versions and real character devices.

The devices are made for the test, with numbers of the kernel's own devices, since these open on every machine.
"""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.test_agent_user import reachable
from msgspec.structs import replace
from watch import PATIENCE_S

from rankd.services.agent.identity import RunAs
from rankd.services.keeper import bpf
from rankd.services.keeper.cgroup import ControlGroups
from rankd.services.keeper.cgroup_device import check_denies, deny
from rankd.services.keeper.cgroup_layout import DEVICES, Limits
from rankd.services.keeper.device_rule import MOST_DENIED, DeviceNumber, number_of, program
from rankd.services.keeper.job_run import JobRun, Surroundings
from rankd.services.keeper.message import KeepJob
from rankd.services.keeper.proc import Launch
from rankd.services.keeper.spawn import Helper
from rankd.services.keeper.state import AgentState, Claim
from rankd.wire.message import Report

__all__ = ["reachable"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices and deny them")

NUMBERS = {"g0": 5, "g1": 7, "g2": 8}
"""The minor numbers of /dev/zero, /dev/full and /dev/random, which no shell needs."""


version_2_only = pytest.mark.parametrize("groups", [2], indirect=True, ids=["version 2"])
"""Lists of version 1 are inherited in any case."""


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def groups(request, tmp_path):
    """Control groups that have only one version's place for devices, whatever else this host has."""
    with mounted(request.param, tmp_path / "mount") as lines:
        (tmp_path / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / "cgroup").write_text(Path("/proc/self/cgroup").read_text())
        made = ControlGroups(f"devices-{os.getpid()}", tmp_path)
        assert made.confines, made.confinement
        assert made.confinement == f"jobs can open no device of another job (cgroup v{request.param})"
        yield made
        while not made.is_clean():
            pass


@contextmanager
def mounted(version: int, own: Path):
    """The lines of the mounts of a version's groups that devices can be denied in.

    If this host mounts none, they are mounted for the test. Only where the kernel can't do that either, the test is
    skipped, and in CI it fails.
    """
    lines = mounts_of(version)
    is_own = not any(version == 2 or "devices" in line.split()[-1].split(",") for line in lines)
    if is_own:
        own.mkdir()
        kind = ["-t", "cgroup2"] if version == 2 else ["-t", "cgroup", "-o", "devices"]
        tried = subprocess.run(["mount", *kind, "none", str(own)], capture_output=True, text=True, check=False)
        if tried.returncode:
            why = f"this host has no control groups of version {version}: {tried.stderr.strip()}"
            pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    try:
        yield mounts_of(version)
    finally:
        if is_own:
            subprocess.run(["umount", str(own)], check=True)


def mounts_of(version: int) -> list[str]:
    wanted = " - cgroup " if version == 1 else " - cgroup2 "
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if wanted in line]


@pytest.fixture
def devices(reachable) -> dict[str, str]:
    paths = {name: reachable / name for name in NUMBERS}
    for name, path in paths.items():
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, NUMBERS[name]))
        path.chmod(0o666)
    return {name: str(path) for name, path in paths.items()}


class Node:
    """Runs jobs as a keeper does, each with one of the devices."""

    def __init__(self, around: Surroundings, devices: dict[str, str], output: Path) -> None:
        self.around, self.devices, self.output, self.count = around, devices, output, 0

    def order(self, own: str | None, *command: str, user: str | None = None, stdin: str | None = None) -> KeepJob:
        self.count += 1
        self.around.state.claim([Claim(allocation=self.count, job=self.count)])
        denied = [number_of(path) for name, path in self.devices.items() if name != own]
        output = self.output / f"{self.count}.out"
        output.touch(0o666)
        output.chmod(0o666)
        plan = Launch(
            command=list(command),
            environment={"PATH": os.environ["PATH"]},
            cwd="/",
            stdin=stdin,
            stdout=str(output),
            stderr=str(output),
            append=True,
            identity=RunAs(mode="submitter").identity(user) if user else None,
            limits=Limits(),
            denied=[number for number in denied if number],
        )
        return KeepJob(allocation=self.count, job=self.count, plan=plan, time_limit_s=None, grace_s=1.0)

    async def run(self, *arguments, **more) -> tuple[Report, str]:
        report = await JobRun(self.order(*arguments, **more), self.around).run()
        return report, Path(report.stdout).read_text()


@contextmanager
def a_node(groups, devices, tmp_path):
    helper = Helper()
    with AgentState(tmp_path / "state") as state, ThreadPoolExecutor(2) as threads:
        around = Surroundings(
            state=state, groups=groups, helper=helper, threads=threads, tell=lambda _: None,
            tell_of_step=lambda _: None, keep=lambda beside: beside.close(), clock=lambda: 0.0,
        )  # fmt: skip
        yield Node(around, devices, Path(devices["g0"]).parent)
    helper.close()


OPENS = """
for path in "$@"; do
    if (exec 3< "$path") 2> /dev/null; then echo "$path opened"; else echo "$path denied"; fi
    if (exec 3> "$path") 2> /dev/null; then echo "$path opened"; else echo "$path denied"; fi
done
"""


@pytest.mark.parametrize("user", [None, "daemon"], ids=["root", "daemon"])
async def test_a_job_opens_its_own_device_and_no_others(groups, devices, tmp_path, user):
    with a_node(groups, devices, tmp_path) as node:
        for own in devices:
            _, said = await node.run(own, "sh", "-c", OPENS, "sh", *devices.values(), user=user)
            expected = [f"{path} {'opened' if name == own else 'denied'}" for name, path in devices.items()]
            assert said.splitlines() == [line for line in expected for _ in range(2)]


async def test_a_job_without_devices_opens_none_and_all_else_stays(groups, devices, tmp_path):
    with a_node(groups, devices, tmp_path) as node:
        paths = [*devices.values(), "/dev/null", "/dev/urandom"]
        _, said = await node.run(None, "sh", "-c", OPENS, "sh", *paths)
    assert [line.split()[1] for line in said.splitlines()] == ["denied"] * 6 + ["opened"] * 4


WAYS_AROUND = """
reads() { head -c 1 "$1" > /dev/null 2>&1 && echo "$2 opened" || echo "$2 denied"; }
mknod $1/made c 1 7 2> /dev/null && echo "mknod made" || echo "mknod denied"
ln -s $2 $1/link
reads $1/link link
reads /proc/$3/root$2 root
touch $1/bound
unshare -m sh -c "mount --bind $2 $1/bound && head -c 1 $1/bound" > /dev/null 2>&1 && echo "bind opened" || echo "bind denied"
setsid sh -c "head -c 1 $2" > /dev/null 2>&1 && echo "setsid opened" || echo "setsid denied"
reads $2 last
"""  # noqa: E501


async def test_root_gets_no_other_device_by_another_path(groups, devices, tmp_path, reachable):
    with a_node(groups, devices, tmp_path) as node:
        arguments = (str(reachable), devices["g1"], str(os.getpid()))
        _, said = await node.run("g0", "sh", "-c", WAYS_AROUND, "sh", *arguments)
        ways = ["mknod", "link", "root", "bind", "setsid", "last"]
        assert said.splitlines() == [f"{way} denied" for way in ways]
        (reachable / "link").unlink()
        _, said = await node.run("g1", "sh", "-c", WAYS_AROUND, "sh", *arguments)
        assert said.splitlines() == ["mknod made"] + [f"{way} opened" for way in ways[1:]], "each way exists"


async def test_a_job_is_confined_before_its_command_runs(groups, devices, tmp_path):
    """Its files are opened by its own process, before that becomes the command."""
    with a_node(groups, devices, tmp_path) as node:
        report, _ = await node.run("g0", "true", stdin=devices["g1"])
        assert report.cause == "start_failed"
        assert f"can't open {devices['g1']}: Operation not permitted" in report.message
        assert (await node.run("g1", "true", stdin=devices["g1"]))[0].exit_status == 0


async def test_what_can_not_be_denied_starts_no_job(groups, devices, tmp_path):
    with a_node(groups, devices, tmp_path) as node:
        order = node.order(None, "true")
        many = [DeviceNumber("c", 1, minor) for minor in range(1000, 1001 + MOST_DENIED)]
        order = replace(order, plan=replace(order.plan, denied=many))
        report = await JobRun(order, node.around).run()
    assert report.cause == "start_failed"
    assert "can't keep the job from devices of other jobs" in report.message
    assert f"{MOST_DENIED + 1} devices are more than" in report.message


def exists(program: int) -> bool:
    """Whether the kernel still has a program with this id."""
    try:
        os.close(bpf._bpf(13, program.to_bytes(4, sys.byteorder) + bytes(8)))
    except FileNotFoundError:
        return False
    return True


ATTACH = (
    "import sys; from rankd.services.keeper.cgroup_device import deny\n"
    "from rankd.services.keeper.device_rule import number_of\n"
    "deny(sys.argv[1], int(sys.argv[2]), [number_of(sys.argv[3])])"
)


async def test_a_denial_outlives_who_made_it_and_ends_with_its_group(groups, devices):
    """Neither does the end of a keeper let a job out, nor does a job leave anything in the kernel."""
    place = groups._places[DEVICES]
    above = bpf.programs_of(str(place.base)) if place.version == 2 else set()
    group = groups.group("outlives", Limits(), [number_of(devices["g0"])])
    for path in group.directories:
        Path(path).mkdir()
    directory = group._by_controller[DEVICES]
    subprocess.run([sys.executable, "-c", ATTACH, directory, str(place.version), devices["g0"]], check=True)
    read = f"echo 0 > {directory}/cgroup.procs; head -c 1 {devices['g0']}"
    assert subprocess.run(["sh", "-c", read], check=False, capture_output=True).returncode != 0
    own = bpf.programs_of(directory) - above if place.version == 2 else set()
    assert len(own) == place.version - 1
    assert group.remove() == []
    async with asyncio.timeout(PATIENCE_S):
        while any(map(exists, own)):
            await asyncio.sleep(0)


async def test_a_job_leaves_no_group_and_no_program(groups, devices, tmp_path):
    started: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
    with a_node(groups, devices, tmp_path) as node:
        order = node.order("g0", "sleep", "1000")
        run = JobRun(order, replace(node.around, tell=started.set_result))
        group = groups.group(str(order.allocation), Limits(), order.plan.denied)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run())
            await started
            is_new = groups._places[DEVICES].version == 2
            programs = bpf.programs_of(group._by_controller[DEVICES]) if is_new else set()
            assert len(group.members()) == 1
            run.end("cancel", 0.0)
        assert not any(Path(path).exists() for path in group.directories)
        async with asyncio.timeout(PATIENCE_S):
            while any(map(exists, programs)):
                await asyncio.sleep(0)


@version_2_only
async def test_a_program_of_a_group_above_still_holds(groups, devices):
    """As systemd's for a unit with a policy for devices."""
    group = groups.group("unit", Limits(), [number_of(devices["g1"])])
    group.make()
    above = group._by_controller[DEVICES]
    below = f"{above}/job"
    Path(below).mkdir()
    deny(below, 2, [number_of(devices["g0"])])
    script = f"echo 0 > {below}/cgroup.procs; {OPENS}"
    said = subprocess.run(
        ["sh", "-c", script, "sh", *devices.values()], check=False, capture_output=True, text=True
    ).stdout
    assert [line.split()[1] for line in said.splitlines()] == ["denied"] * 4 + ["opened"] * 2
    assert group.remove() == []


@version_2_only
async def test_a_program_that_ours_would_replace_is_left_in_place(groups, devices):
    """One that was attached to be overridden: the job is not started, as it could open what that forbids."""
    group = groups.group("container", Limits(), [number_of(devices["g1"])])
    above = group._by_controller[DEVICES]
    Path(above).mkdir()
    descriptor = os.open(above, os.O_RDONLY)
    loaded = bpf._load(program([number_of(devices["g1"])]))
    bpf._bpf(8, struct.pack("=IIII", descriptor, loaded, 6, 1))  # BPF_F_ALLOW_OVERRIDE
    os.close(loaded)
    os.close(descriptor)
    Path(f"{above}/job").mkdir()
    with pytest.raises(OSError, match="a program of a group above would no longer hold"):
        deny(f"{above}/job", 2, [number_of(devices["g0"])])
    assert group.remove() == []


def test_a_keeper_says_why_devices_can_not_be_denied(tmp_path):
    (tmp_path / "cgroup").write_text("4:devices:/a\n")
    (tmp_path / "mountinfo").write_text("1 2 0:1 / /no/such/place rw - cgroup cgroup rw,devices\n")
    groups = ControlGroups("test", tmp_path)
    assert not groups.confines
    why = "devices: /no/such/place/a: No such file or directory"
    assert groups.confinement == f"jobs are NOT kept from devices of other jobs ({why})"
    assert DEVICES not in groups.statement


def test_a_list_of_what_is_allowed_is_not_taken_for_a_denial(tmp_path):
    """As in a container: a line for all devices of a driver would allow what is denied singly."""
    (tmp_path / "devices.list").write_text("c 195:* rwm\nc 1:3 rwm\n")
    with pytest.raises(OSError, match="it lists what is allowed"):
        check_denies(str(tmp_path), 1)
    (tmp_path / "devices.list").write_text("a *:* rwm\n")
    (tmp_path / "devices.deny").touch()
    check_denies(str(tmp_path), 1)


@pytest.mark.parametrize("right", ["bpf", "net_admin"])
def test_a_keeper_without_the_rights_says_so_before_a_job_needs_them(right):
    few = f"-all,+setuid,+setgid,+chown,+dac_override,+fowner,+kill,+{right}"
    program = "from rankd.services.keeper.cgroup import ControlGroups; print(ControlGroups('rights').confinement)"
    command = ["setpriv", "--bounding-set", few, "--inh-caps", "-all", sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("jobs are NOT kept from devices of other jobs (devices: /")
    assert "Operation not permitted" in said
