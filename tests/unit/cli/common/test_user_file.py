"""The user's own file: private, and read by all commands as it was written."""

import stat

import pytest

from rankd.cli.common.user_file import own_directory, write_user_file
from rankd.client.place import named_by_user, user_file_path


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_what_is_written_is_read_and_private(tmp_path):
    path = user_file_path()
    creds = own_directory(path) / "login.creds"
    assert write_user_file(path, "nats://head:4222", creds) is None
    assert named_by_user() == "nats://head:4222"
    assert str(creds) in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent == tmp_path / "rankd"


def test_a_directory_that_others_could_enter_is_closed(tmp_path):
    (tmp_path / "rankd").mkdir(mode=0o755)
    (tmp_path / "rankd").chmod(0o777)
    assert stat.S_IMODE(own_directory(user_file_path()).stat().st_mode) == 0o700


def test_another_file_is_kept_beside_it():
    path = user_file_path()
    creds = own_directory(path) / "login.creds"
    path.write_text('nats = "nats://other:1"\n')
    kept = write_user_file(path, "nats://head:4222", creds)
    assert kept.read_text() == 'nats = "nats://other:1"\n'
    assert write_user_file(path, "nats://head:4222", creds) is None
    assert named_by_user() == "nats://head:4222"


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ä", "a\nb", "\x7f"])
def test_any_path_can_be_written(tmp_path, name):
    import tomllib

    path = user_file_path()
    own_directory(path)
    write_user_file(path, "nats://head:4222", tmp_path / name)
    assert tomllib.loads(path.read_text())["creds"] == str(tmp_path / name)


def test_without_a_file_nothing_is_named():
    assert named_by_user() is None
