"""Which programs a node runs with its own rights, and what becomes of one whose control group fails."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rankd.services.keeper import hook_program
from rankd.services.keeper.cgroup_job import GroupError, JobGroup
from rankd.services.keeper.cgroup_layout import Limits
from rankd.services.keeper.hook_program import HookProgram, Means, checked
from rankd.services.keeper.spawn import Helper


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    path = folder / "prolog"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_that_only_root_and_the_agent_can_change_is_run(program):
    assert checked(str(program)) == str(program)
    link = program.with_name("link")
    link.symlink_to(program)
    assert checked(str(link)) == str(program)


@pytest.mark.parametrize("of", ["file", "directory"])
def test_one_that_others_can_change_is_not(program, of):
    path = program if of == "file" else program.parent
    path.chmod(0o775)
    with pytest.raises(ValueError, match=f"others than its owner can write to {path}"):
        checked(str(program))


def test_one_behind_a_link_that_others_can_change_is_not(program, tmp_path):
    """Who can replace the link chooses what is run."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    link, hop = theirs / "prolog", program.with_name("hop")
    link.symlink_to("../etc/prolog")
    hop.symlink_to(link)
    for path in (link, hop):
        with pytest.raises(ValueError, match=f"others than its owner can write to {theirs}"):
            checked(str(path))
    loop = program.with_name("loop")
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        checked(str(loop))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_of_another_user_is_not_followed(program, tmp_path):
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    link = sticky / "prolog"
    link.symlink_to(program)
    assert checked(str(link)) == str(program)
    os.chown(link, 12_345, -1, follow_symlinks=False)
    with pytest.raises(ValueError, match=f"{link} belongs to user 12345"):
        checked(str(link))


def test_one_that_is_missing_or_no_file_is_not(program):
    with pytest.raises(FileNotFoundError):
        checked(f"{program}2")
    with pytest.raises(ValueError, match="is not a file"):
        checked(str(program.parent))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("of", ["file", "directory"])
def test_one_of_another_user_is_not(program, of):
    path = program if of == "file" else program.parent
    os.chown(path, 12_345, -1)
    with pytest.raises(ValueError, match=f"{path} belongs to user 12345"):
        checked(str(program))


class BadGroup(JobGroup):
    """A control group that can't be made for this reason, or, once made, has a process that can't be killed."""

    def __init__(self, directory, problem=None):
        super().__init__("bad", Limits(), {})
        self._directory = directory
        self._problem = problem

    @property
    def directories(self):
        return (str(self._directory),)

    def make(self):
        if self._problem is not None:
            raise self._problem
        self._directory.mkdir()

    def members(self):
        return [1]

    def kill(self):
        """Without effect."""

    def remove(self):
        return list(self.directories) if self._directory.exists() else []


async def result_of(program, group):
    """Run it; returns why it has failed, and the directories that are to be removed later."""
    helper, left = Helper(), []
    try:
        with ThreadPoolExecutor(1) as threads:
            run = HookProgram("prolog", str(program), {}, 60.0)
            return await run.run(Means(helper, threads, time.time, group, left.extend)), left
    finally:
        helper.close()


async def test_one_that_leaves_what_cannot_be_killed_has_failed(program, tmp_path, monkeypatch):
    monkeypatch.setattr(hook_program, "EMPTY_S", 0.0)
    group = BadGroup(tmp_path / "group")
    failed, left = await result_of(program, group)
    assert failed == f"prolog {program} left processes that can't be killed"
    assert left == [str(tmp_path / "group")]


async def test_its_own_failure_is_told_first(program, tmp_path, monkeypatch):
    monkeypatch.setattr(hook_program, "EMPTY_S", 0.0)
    program.write_text("#!/bin/sh\nexit 3\n")
    failed, left = await result_of(program, BadGroup(tmp_path / "group"))
    assert failed == f"prolog {program} ended with 3"
    assert left == [str(tmp_path / "group")]


async def test_one_without_a_control_group_runs_and_that_is_logged(program, tmp_path, caplog):
    group = BadGroup(tmp_path / "group", GroupError("no room for a group"))
    assert await result_of(program, group) == (None, [])
    [record] = [record for record in caplog.records if record.name == "rankd.keeper"]
    expected = f"prolog {program} runs without a control group: no room for a group"
    assert (record.levelname, record.getMessage()) == ("WARNING", expected)


async def test_any_other_fault_of_its_group_is_no_run(program, tmp_path):
    with pytest.raises(RuntimeError, match="a bug"):
        await result_of(program, BadGroup(tmp_path / "group", RuntimeError("a bug")))
