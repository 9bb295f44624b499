"""Old output files go, and nothing else, whatever users put into their directories."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watch import vanishes

from rankd.bus.liveness import Loops
from rankd.core.model.job_environment import job_of_output
from rankd.services.agent import output as agent_output
from rankd.services.agent.output import PART, OldOutputs, Sweep, mount_points

NOW = 2_000_000_000.0
DAY = 86_400.0
OLD, YOUNG = NOW - 91 * DAY, NOW - 89 * DAY
USER = 12_345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def put(path: Path, at: float = OLD, owner: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("output")
    dated(path, at, owner)
    return path


def dated(path: Path, at: float = OLD, owner: int | None = None) -> None:
    if owner is not None:
        os.chown(path, owner, owner, follow_symlinks=False)
    os.utime(path, (at, at), follow_symlinks=False)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def swept(root: Path, *running: int, keep_s: float | None = 90 * DAY, has_users_rights: bool = True) -> int:
    outputs = OldOutputs(root, lambda: running, has_users_rights=has_users_rights)
    outputs.keep_s = keep_s
    return await outputs.run_once(NOW)


@pytest.fixture
def output(tmp_path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


@pytest.fixture
def alices(output) -> Path:
    """Her directory, as the agent makes it."""
    (output / "alice").mkdir()
    os.chown(output / "alice", USER, USER)
    return output / "alice"


@pytest.fixture
def victims(tmp_path) -> Path:
    """A directory that is like /etc to the agent: with an old file of a name that would go elsewhere."""
    put(tmp_path / "etc" / "job-1.out")
    return tmp_path / "etc"


@pytest.mark.parametrize("name", ["job-1", "job-.out", "job-0.out", "job-01.out", "job-1.out.gz", "Job-1.out",
                                  "job-1.log", "job-1.out\n", "job-\u0661.out", "xjob-1.err", "job--1.err",
                                  f"job-{10**30}.out"])  # fmt: skip
def test_only_the_default_pattern_names_an_output(name):
    assert job_of_output(name) is None
    assert (job_of_output("job-1.out"), job_of_output("job-23.err")) == (1, 23)


async def test_old_outputs_go_and_younger_or_other_files_stay(output):
    for name, at in (("job-1.out", OLD), ("job-1.err", OLD), ("job-2.out", YOUNG), ("mine.out", OLD)):
        put(output / name, at)
    put(output / "mine" / "job-3.out")
    assert await swept(output) == 2
    assert names(output) == ["job-2.out", "mine", "mine.out"]
    assert names(output / "mine") == ["job-3.out"], "a directory that the agent did not make for a user"


async def test_a_running_jobs_files_stay_however_old(output):
    for name in ("job-7.out", "job-7.err", "job-8.out"):
        put(output / name)
    assert await swept(output, 7) == 1
    assert names(output) == ["job-7.err", "job-7.out"]


@pytest.mark.parametrize(("keep_s", "left"), [(None, ["job-1.out", "job-2.out"]), (0.0, ["job-2.out"])])
async def test_nothing_goes_for_ever_or_within_an_hour(output, keep_s, left):
    put(output / "job-1.out")
    put(output / "job-2.out", NOW - 3_000)
    await swept(output, keep_s=keep_s)
    assert names(output) == left


async def test_a_directory_that_is_not_there_or_cannot_be_opened_is_passed(output, caplog):
    assert await swept(output / "none") == 0
    assert not caplog.records
    put(output / "file")
    assert await swept(output / "file") == 0
    assert "Not a directory" in caplog.text


async def test_a_loop_of_links_stops_nothing(output, caplog):
    (output / "loop").symlink_to(output / "loop")
    assert await swept(output / "loop") == 0
    assert "old output files stay in 1 places" in caplog.text


async def test_the_loop_is_watched_and_another_time_counts_at_once(output, caplog):
    caplog.set_level("INFO")
    put(output / "job-1.out", time.time() - 2 * DAY)
    clock = Clock()
    loops = Loops(clock)
    outputs = OldOutputs(output, tuple)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outputs.run(loops, time.time))
        outputs.keep_s = DAY
        await vanishes(output / "job-1.out")
        while "deleted 1 old output files" not in caplog.text:  # from there on, it rests
            await asyncio.sleep(0)
        clock.now = agent_output.EVERY_S + agent_output.BOUND_S / 2
        assert [(loop.name, loop.is_late) for loop in loops.all] == [("old outputs", False)]
        clock.now += agent_output.BOUND_S
        assert loops.late
        put(output / "job-2.out", time.time() - DAY / 2)
        outputs.keep_s = DAY / 4
        await vanishes(output / "job-2.out")
        task.cancel()


# --- directories of users -----------------------------------------------------------------------------------


@needs_root
async def test_a_users_old_outputs_go(output, alices):
    put(alices / "job-1.out", OLD, USER)
    put(alices / "job-2.out", YOUNG, USER)
    put(alices / "job-3.out", OLD, USER + 1)
    put(alices / "below" / "job-4.out", OLD, USER)
    assert await swept(output) == 1
    assert names(alices) == ["below", "job-2.out", "job-3.out"], "others' files and the user's own directories stay"
    assert names(alices / "below") == ["job-4.out"]


@needs_root
async def test_no_link_leads_out_of_the_directory(output, alices, victims):
    (output / "bob").symlink_to(victims)
    (alices / "job-1.out").symlink_to(victims / "job-1.out")
    (alices / "job-2.out").symlink_to(victims)
    (alices / "job-3.out").symlink_to(put(victims / "hers", OLD, USER))
    for path in (output / "bob", *alices.iterdir()):
        dated(path, OLD, USER)
    assert await swept(output) == 0
    assert names(victims) == ["hers", "job-1.out"]
    assert names(alices) == ["job-1.out", "job-2.out", "job-3.out"], "regular files only"


@needs_root
async def test_of_a_hard_link_only_the_name_goes(output, alices, tmp_path):
    thesis = put(tmp_path / "thesis", OLD, USER)
    (alices / "job-1.out").hardlink_to(thesis)
    agents = put(tmp_path / "agents")
    (alices / "job-2.out").hardlink_to(agents)
    assert await swept(output) == 1
    assert thesis.read_text() == agents.read_text() == "output"
    assert names(alices) == ["job-2.out"]


@needs_root
async def test_pipes_directories_and_devices_stay_and_hold_up_nothing(output, alices):
    os.mkfifo(alices / "job-1.out")
    (alices / "job-2.out").mkdir()
    for path in (alices / "job-1.out", alices / "job-2.out"):
        dated(path, OLD, USER)
    os.mkfifo(output / "job-3.out")
    dated(output / "job-3.out")
    put(alices / "job-4.out", OLD, USER)
    assert await swept(output) == 1
    assert names(alices) == ["job-1.out", "job-2.out"]
    assert names(output) == ["alice", "job-3.out"]


@needs_root
def test_a_directory_that_is_swapped_while_we_look_leads_nowhere(output, alices, victims, monkeypatch):
    """Her directory is another one between any two steps; the victim's has the very names."""
    monkeypatch.setattr(agent_output, "PART", 1)
    for number in range(1, 4):
        put(alices / f"job-{number}.out", OLD, USER)
        put(victims / f"job-{number}.out", OLD, USER)
    os.chown(victims, USER, USER)
    sweep, gone = Sweep(output, NOW - 90 * DAY), 0
    gone += sweep.part()  # the directory's own entry
    gone += sweep.part()
    alices.rename(output.parent / "moved")
    alices.symlink_to(victims)
    while sweep.more:
        gone += sweep.part()
    assert gone == 3
    assert names(output.parent / "moved") == []
    assert names(victims) == ["job-1.out", "job-2.out", "job-3.out"]


@needs_root
def test_a_directory_that_becomes_a_link_before_it_is_opened_is_not_followed(output, alices, victims, monkeypatch):
    monkeypatch.setattr(agent_output, "PART", 1)
    os.chown(victims, USER, USER)
    dated(put(victims / "job-1.out"), OLD, USER)
    sweep = Sweep(output, NOW - 90 * DAY)
    assert sweep.part() == 0
    alices.rmdir()
    alices.symlink_to(victims)
    while sweep.more:
        assert sweep.part() == 0
    assert sweep.failures == 1
    assert names(victims) == ["job-1.out"]


@pytest.fixture
def mounted(alices) -> Iterator[Path]:
    """A file system of her own on her directory. The agent must not even ask it for anything."""
    done = subprocess.run(["mount", "-t", "tmpfs", "none", alices], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this host lets us mount nothing: {done.stderr.decode()}")
    os.chown(alices, USER, USER)
    yield alices
    subprocess.run(["umount", alices], check=True)


@needs_root
async def test_what_is_mounted_is_not_entered(output, mounted):
    put(mounted / "job-1.out", OLD, USER)
    assert await swept(output) == 0
    assert names(mounted) == ["job-1.out"]


def test_mount_points_are_read_whatever_they_are_called(tmp_path):
    table = tmp_path / "mountinfo"
    lines = ["36 35 98:0 / /o/a\\040b rw - ext4 /dev/x rw", "37 35 98:0 / /o/c\u2028d rw - ext4 /dev/x rw",
             "38 35 98:0 / /other rw - ext4 /dev/x rw", "39 35 98:0 / /o rw - ext4 /dev/x rw"]  # fmt: skip
    table.write_text("\n".join(lines) + "\n")
    assert mount_points("/o", table) == {"/o/a b", "/o/c\u2028d"}


# --- bounds -------------------------------------------------------------------------------------------------


async def test_thousands_of_files_go_a_bounded_number_at_a_time(output):
    for number in range(1, 2 * PART + 101):
        put(output / f"job-{number}.out")
    sweep, parts = Sweep(output, NOW - 90 * DAY), []
    while sweep.more:
        parts.append(sweep.part())
    assert max(parts) <= PART
    assert sum(parts) == 2 * PART + 100
    assert names(output) == []


@needs_root
def test_a_directory_without_end_does_not_hold_up_the_others(output, monkeypatch):
    monkeypatch.setattr(agent_output, "MOST_LOOKED", 20)
    for user in ("alice", "bob"):
        for number in range(1, 31):
            put(output / user / f"job-{number}.out", OLD, USER)
        os.chown(output / user, USER, USER)
    sweep = Sweep(output, NOW - 90 * DAY)
    while sweep.more:
        sweep.part()
    assert [len(names(output / user)) for user in ("alice", "bob")] == [10, 10]


def test_every_descriptor_is_closed(output):
    put(output / "job-1.out")
    before = len(list(Path("/proc/self/fd").iterdir()))
    sweep = Sweep(output, NOW)
    while sweep.more:
        sweep.part()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("has_users_rights", [True, False])
async def test_directories_of_users_are_the_agents_where_all_jobs_run_as_its_user(output, has_users_rights):
    put(output / "alice" / "job-1.out")
    assert await swept(output, has_users_rights=has_users_rights) == (0 if has_users_rights else 1)


@needs_root
async def test_directories_of_others_are_left_alone_where_all_jobs_run_as_the_agents_user(output, alices):
    put(alices / "job-1.out", OLD, USER)
    assert await swept(output, has_users_rights=False) == 0
