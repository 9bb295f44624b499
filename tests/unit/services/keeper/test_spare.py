"""Directories that are used again."""

import pytest

from rankd.services.keeper import spare
from rankd.services.keeper.spare import BLANK, SpareDirectories


@pytest.fixture
def kept(tmp_path):
    directories = SpareDirectories(tmp_path / "spare")
    directories.begin()
    return directories


def test_a_directory_is_used_again_without_what_was_in_it(kept, tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    kept.make(first)
    number = first.stat().st_ino
    (first / "started").write_text("pid 5")
    (first / "record").write_text("job 9")
    assert kept.keep(first)
    assert not first.exists()
    kept.make(second)
    assert second.stat().st_ino == number
    assert {path.name: path.read_bytes() for path in second.iterdir()} == {BLANK: b""}


def test_a_directory_that_exists_is_never_replaced(kept, tmp_path):
    kept.make(tmp_path / "1")
    kept.keep(tmp_path / "1")
    (tmp_path / "2").mkdir()
    with pytest.raises(FileExistsError):
        kept.make(tmp_path / "2")


def test_no_more_are_kept_than_are_useful(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(spare, "MOST", 1)
    for name in ("1", "2"):
        kept.make(tmp_path / name)
    assert kept.keep(tmp_path / "1")
    assert not kept.keep(tmp_path / "2")
    assert (tmp_path / "2").exists(), "the caller removes it"


def test_what_can_not_be_emptied_is_not_kept(kept, tmp_path):
    kept.make(tmp_path / "1")
    (tmp_path / "1" / "unknown").mkdir()
    assert kept.keep(tmp_path / "1"), "it is gone, though not kept"
    assert list((tmp_path / "spare").iterdir()) == []


def test_spare_directories_of_an_earlier_agent_are_removed(tmp_path):
    (tmp_path / "spare/0").mkdir(parents=True)
    (tmp_path / "spare/0/started").write_text("half emptied")
    SpareDirectories(tmp_path / "spare").begin()
    assert list((tmp_path / "spare").iterdir()) == []
