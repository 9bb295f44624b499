"""Control files and directories, on an ordinary file system."""

from __future__ import annotations

import pytest

from rankd.services.keeper.cgroup_file import field_in, members, number_in, removed, write


def test_a_value_is_written_without_making_a_file(tmp_path):
    (tmp_path / "pids.max").write_text("")
    write(tmp_path / "pids.max", "17")
    assert (tmp_path / "pids.max").read_text() == "17"
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "memory.max", "17")


@pytest.mark.parametrize(("text", "number"), [("17\n", 17), ("max\n", None), ("", None), (None, None)])
def test_a_number_is_read_where_there_is_one(tmp_path, text, number):
    if text is not None:
        (tmp_path / "file").write_text(text)
    assert number_in(f"{tmp_path}/file") == number


def test_a_field_is_found_by_its_whole_name(tmp_path):
    (tmp_path / "memory.events").write_text("oom 3\noom_kill 2\n")
    assert field_in(f"{tmp_path}/memory.events", "oom_kill") == 2
    assert field_in(f"{tmp_path}/memory.events", "oom_k") is None


def test_processes_of_groups_below_count_also_where_the_file_system_counts_no_links(tmp_path):
    for path, pids in ((tmp_path, "1\n"), (tmp_path / "a", ""), (tmp_path / "a/b", "2\n3\n")):
        path.mkdir(exist_ok=True)
        (path / "cgroup.procs").write_text(pids)
    assert sorted(members(tmp_path)) == [1, 2, 3]
    assert list(members(tmp_path / "a/b")) == [2, 3]


def test_groups_are_removed_from_the_lowest_up_and_those_in_use_are_named(tmp_path):
    (tmp_path / "free/below").mkdir(parents=True)
    (tmp_path / "used/below").mkdir(parents=True)
    (tmp_path / "used/below/file").touch()
    paths = [str(tmp_path / name) for name in ("free", "used", "missing")]
    assert removed(paths) == [str(tmp_path / "used")]
    assert not (tmp_path / "free").exists()
