"""Logs that are rotated under their writers."""

import os
import subprocess

import pytest

from rankd.services.runtime.log_file import KEPT, open_log, rotate_if_large


def test_nothing_happens_below_the_limit(tmp_path):
    with open_log(tmp_path / "a.log") as log:
        log.write(b"12345")
    rotate_if_large(tmp_path / "a.log", 5)
    rotate_if_large(tmp_path / "none.log", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_the_parts_are_bounded_and_the_writer_never_notices(tmp_path):
    path = tmp_path / "a.log"
    with open_log(path) as log:
        for number in range(10):
            log.write(b"%d" % number * 8)
            log.flush()
            rotate_if_large(path, 7)
    parts = [tmp_path / f"a.log.{number}" for number in range(1, KEPT + 1)]
    assert [part.read_bytes() for part in parts] == [b"99999999", b"88888888", b"77777777"]
    assert path.read_bytes() == b""
    assert sorted(tmp_path.iterdir()) == sorted([path, *parts])


def test_logs_are_for_their_owner_only(tmp_path):
    path = tmp_path / "a.log"
    with open_log(path) as log:
        log.write(b"12345678")
    rotate_if_large(path, 7)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can make a small file system")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_what_can_not_be_copied_stays_where_it_is_and_so_do_older_parts(small_disk):
    path = small_disk / "a.log"
    (small_disk / "a.log.1").write_text("older")
    with open_log(path) as log:
        log.write(b"x" * 40_000)
    for _ in range(KEPT):
        rotate_if_large(path, 7)
    assert path.stat().st_size == 40_000
    assert sorted(file.name for file in small_disk.iterdir()) == ["a.log", "a.log.1"]
    assert (small_disk / "a.log.1").read_text() == "older"
