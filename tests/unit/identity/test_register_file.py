"""The register on the disk: private, whole, and without a lost change."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from rankd.core.errors import Refused
from rankd.identity.register import Register, admitted, given
from rankd.identity.register_file import change_register, read_register
from rankd.identity.site import Role


def test_without_a_file_it_is_empty(tmp_path):
    assert read_register(tmp_path) == Register()


def test_what_is_changed_is_read_and_private(tmp_path):
    after = change_register(tmp_path, lambda register: given(register, Role.NODE, "n1", 5, None))
    assert read_register(tmp_path) == after
    assert after.member(Role.NODE, "n1").given_at == 5
    assert stat.S_IMODE((tmp_path / "register.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["register.json"]


def test_what_is_not_changed_is_not_written(tmp_path):
    change_register(tmp_path, lambda register: admitted(register, Role.USER, "a"))
    before = (tmp_path / "register.json").stat().st_ino
    change_register(tmp_path, lambda register: admitted(register, Role.USER, "a"))
    assert (tmp_path / "register.json").stat().st_ino == before


def test_a_refused_change_changes_nothing(tmp_path):
    def refuse(_register):
        raise Refused("no", "no")

    change_register(tmp_path, lambda register: admitted(register, Role.USER, "a"))
    before = read_register(tmp_path)
    with pytest.raises(Refused):
        change_register(tmp_path, refuse)
    assert read_register(tmp_path) == before
    assert change_register(tmp_path, lambda register: register) == before  # the lock is free


def test_no_change_is_lost_when_many_are_made_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: change_register(tmp_path, lambda r: admitted(r, Role.USER, f"u{number}")), range(64)
            )
        )
    assert len(read_register(tmp_path).members) == 64


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"members": 1}', b"\xff", b"[" * 9_000])
def test_a_damaged_file_is_said_and_not_replaced(tmp_path, content):
    (tmp_path / "register.json").write_bytes(content)
    for attempt in (read_register, lambda directory: change_register(directory, lambda register: register)):
        with pytest.raises(Refused) as refused:
            attempt(tmp_path)
        assert refused.value.code == "bad_register"
    assert (tmp_path / "register.json").read_bytes() == content
