import json

import pytest

from rankd.client.target import RETRY_FOR_S, Target
from rankd.core.errors import Unavailable


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    for name in ("RANKD_DIR", "RANKD_NATS", "RANKD_DB", "RANKD_CREDS", "RANKD_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def up(tmp_path):
    (directory := tmp_path / ".rankd").mkdir(mode=0o700)
    (directory / "login.sock").touch()
    files = {"nats": "nats://up:1", "login": str(directory / "login.sock"), "creds": str(directory / "a.creds")}
    (directory / "up.json").write_text(json.dumps(files))
    return directory


def test_the_socket_of_a_directory_that_was_found_is_asked_as_oneself(up):
    way = Target(None, {}).way()
    assert way.socket == up / "login.sock"
    assert Target(None, {}).is_local()
    assert Target(None, {"directory": up}).way().socket == up / "login.sock"


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize("options", [{"user": "alice"}, {"user": "alice", "admin": True}])
def test_another_user_or_other_rights_go_over_the_broker(options):
    way = Target("nats://there:1", options).way()
    assert way.socket is None
    assert way.who.user == "alice"
    assert way.who.admin == options.get("admin", False)
    assert not Target("nats://there:1", options).is_local()


def test_without_any_rankd_it_says_what_to_do():
    with pytest.raises(Unavailable) as error:
        Target(None, {}).way().place.need_nats()
    assert error.value.code == "not_running"


def test_an_argument_that_does_not_exist_is_an_error():
    with pytest.raises(TypeError, match="no argument 'dir'; it has admin, ca, creds, directory"):
        Target(None, {"dir": "x"})
    assert Target(None, {}).effort.retry_for_s == RETRY_FOR_S
