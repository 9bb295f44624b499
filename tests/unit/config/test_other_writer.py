"""Who else could change the files of a configuration."""

import os

import pytest

from rankd.config.other_writer import other_writers


@pytest.fixture
def directory(tmp_path):
    own = tmp_path / "etc"
    own.mkdir(mode=0o755)
    (own / "rankd.toml").write_text("")
    (own / "rankd.toml").chmod(0o644)
    return own


def test_files_of_ones_own_are_not_warned_about(directory):
    assert other_writers(directory) == []


def test_a_directory_that_is_not_there_is_no_concern_of_this(tmp_path):
    assert other_writers(tmp_path / "nowhere") == []


def test_files_that_all_may_write_are_named(directory):
    (directory / "rankd.toml").chmod(0o666)
    directory.chmod(0o777)
    assert [(problem.file, "others than its owner" in problem.message) for problem in other_writers(directory)] == [
        (str(directory), True),
        ("rankd.toml", True),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_another_user_or_group_are_named_to_root(directory):
    os.chown(directory / "rankd.toml", 4711, 4711)
    [problem] = other_writers(directory)
    assert problem.file == "rankd.toml"
    assert "rankd.toml belongs to user 4711, who can change it" in problem.message
    os.chown(directory / "rankd.toml", 0, 4711)
    assert other_writers(directory) == []
    (directory / "rankd.toml").chmod(0o664)
    assert len(other_writers(directory)) == 1
    os.chown(directory / "rankd.toml", 0, 0)
    assert other_writers(directory) == []
