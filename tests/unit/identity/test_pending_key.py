"""The key of an exchange that may be cut off: the same one for the same invitation."""

import stat

import pytest

from rankd.identity.pending_key import pending_key


def test_the_next_try_has_the_same_key(tmp_path):
    first = pending_key(tmp_path / "key", "d")
    assert pending_key(tmp_path / "key", "d").seed == first.seed
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_another_invitation_has_another_key(tmp_path):
    assert pending_key(tmp_path / "key", "d").seed != pending_key(tmp_path / "key", "e").seed


@pytest.mark.parametrize("content", ["", "d", "d SU", "d \xff", "d " + "A" * 58, "d x y z"])
def test_a_damaged_file_is_replaced(tmp_path, content):
    (tmp_path / "key").write_bytes(content.encode("latin-1"))
    key = pending_key(tmp_path / "key", "d")
    assert pending_key(tmp_path / "key", "d").seed == key.seed
