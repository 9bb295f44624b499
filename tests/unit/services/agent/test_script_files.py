"""The files of running scripts."""

import os
import stat
from pathlib import Path

import pytest

from rankd.services.agent.script_files import FOLDER, ScriptFiles
from rankd.services.keeper.proc import Identity


@pytest.fixture
def files(tmp_path):
    return ScriptFiles(tmp_path / "output", "i1", has_users_rights=False)


def names(tmp_path, instance="i1"):
    return sorted(path.name for path in (tmp_path / "output" / FOLDER / instance).iterdir())


def test_a_script_can_be_read_and_run_by_its_user_alone(files, tmp_path):
    path = files.write(5, b"#!/bin/sh\n", None)
    assert path == f"{tmp_path}/output/.scripts/i1/5"
    found = Path(path).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o500, os.geteuid())
    assert Path(path).read_bytes() == b"#!/bin/sh\n"


def test_removing_takes_the_named_ones_and_does_not_mind_others(files, tmp_path):
    for allocation in (1, 2, 3):
        files.write(allocation, b"#!", None)
    files.remove([2, 99])
    assert names(tmp_path) == ["1", "3"]


def test_what_an_earlier_agent_left_goes_and_another_agents_stays(files, tmp_path):
    other = ScriptFiles(tmp_path / "output", "i2", has_users_rights=False)
    for allocation in (1, 2, 3):
        files.write(allocation, b"#!", None)
    other.write(1, b"#!", None)
    files.keep_only({2})
    assert (names(tmp_path), names(tmp_path, "i2")) == (["2"], ["1"])


def test_before_the_first_script_there_is_nothing_to_remove(files, tmp_path):
    files.keep_only(set())
    files.remove([1])
    assert not (tmp_path / "output").exists()


def test_a_file_that_a_killed_agent_left_is_replaced(files):
    files.write(5, b"#!/bin/old", None)
    path = files.write(5, b"#!/bin/new", None)
    assert Path(path).read_bytes() == b"#!/bin/new"


def test_a_link_in_its_place_is_not_followed(files, tmp_path):
    files.write(1, b"#!", None)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "output" / FOLDER / "i1" / "5").symlink_to(precious)
    files.write(5, b"#!/bin/sh", None)
    assert precious.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_where_jobs_run_as_their_users_the_file_is_the_users_and_the_directories_are_roots(tmp_path):
    files = ScriptFiles(tmp_path / "output", "i1", has_users_rights=True)
    path = files.write(5, b"#!/bin/sh\n", Identity(name="daemon", uid=1, gid=1, groups=[1]))
    found, above = Path(path).stat(), Path(path).parent.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1, 1, 0o500)
    assert (above.st_uid, stat.S_IMODE(above.st_mode)) == (0, 0o711)


def test_a_script_that_can_not_be_written_leaves_nothing(files, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        files.write(5, b"#!", None)
    assert names(tmp_path) == []
