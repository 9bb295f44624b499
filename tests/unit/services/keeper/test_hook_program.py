"""Which programs a node runs with its own rights."""

import os

import pytest

from rankd.services.keeper.hook_program import checked


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
