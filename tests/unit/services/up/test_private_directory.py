"""Directories that only their owner enters."""

import os

import pytest

from rankd.core.errors import Refused
from rankd.services.up.private_directory import make_private

USER = 4711


def modes(directory):
    return {path.relative_to(directory).as_posix(): path.stat().st_mode & 0o777 for path in directory.rglob("*")}


def test_a_new_one_is_its_owners(tmp_path):
    make_private(tmp_path / "a" / "b", without=tmp_path / "none")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_one_that_is_wide_is_narrowed_with_all_that_is_in_it_but_the_output_of_jobs(tmp_path):
    top = tmp_path / "top"
    (top / "agent" / "output" / "deep").mkdir(parents=True)
    (top / "run").mkdir()
    for file in ("run/program", "agent/output/job-1.out", "data"):
        (top / file).write_text("")
        (top / file).chmod(0o755)
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "elsewhere").chmod(0o644)
    (top / "link").symlink_to(tmp_path / "elsewhere")
    top.chmod(0o755)
    make_private(top, without=top / "agent" / "output")
    assert top.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o644
    (top / "link").unlink()
    found = modes(top)
    assert found == {"agent": 0o700, "agent/output": 0o700, "agent/output/deep": found["agent/output/deep"],
                     "agent/output/job-1.out": 0o755, "run": 0o700, "run/program": 0o700, "data": 0o700}  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_root_uses_no_directory_that_another_user_has_made_or_could_replace(tmp_path):
    """Its owner could replace our secrets by other ones."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    os.chown(tmp_path / "theirs", USER, USER)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    os.chown(tmp_path / "link", USER, USER, follow_symlinks=False)
    for name in ("theirs", "theirs/new", "link", "link/new"):
        with pytest.raises(Refused, match=f"belongs to user {USER}, who could replace it; use another one") as refused:
            make_private(tmp_path / name, without=tmp_path / "none")
        assert (refused.value.code, refused.value.field) == ("bad_path", "dir")
    make_private(tmp_path / "ours", without=tmp_path / "none")
