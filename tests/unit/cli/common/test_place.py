import argparse
import json
import os
from pathlib import Path

import pytest

from rankd.bus.tls_files import TlsFiles
from rankd.cli.common.place import find
from rankd.client.place import sqlite_file
from rankd.core.errors import RankdError, Refused, Unavailable


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    here = tmp_path / "work" / "deep"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    for name in ("RANKD_DIR", "RANKD_NATS", "RANKD_DB", "RANKD_CA", "RANKD_TLS_CERT", "RANKD_TLS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return here


def flags(*, directory=None, nats=None, db=None, verbose=False):
    return argparse.Namespace(dir=directory, nats=nats, db=db, verbose=verbose, looks=True)


def running(directory, **changes):
    directory.mkdir(exist_ok=True, mode=0o700)
    database = directory / "rankd.db"
    database.touch()
    up = {"nats": "nats://up:1", "db": str(database), "pids": {"intake": 1}, "ready": True} | changes
    (directory / "up.json").write_text(json.dumps(up))
    return database


def user_file(tmp_path, text, mode=0o600):
    file = tmp_path / "xdg" / "rankd" / "client.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_up_says_where_everything_is(nowhere):
    database = running(nowhere / ".rankd")
    place = find(flags())
    assert (place.nats, place.database, place.uses_bus) == ("nats://up:1", database, False)
    assert place.explained() == f"reads the database {database}: found {nowhere}/.rankd"
    assert place.explained(acts=True) == f"asks the broker nats://up:1: found {nowhere}/.rankd"


def test_a_directory_of_a_parent_is_found_and_the_nearest_counts(nowhere, tmp_path):
    far = running(tmp_path / ".rankd")
    assert find(flags()).database == far
    near = running(nowhere.parent / ".rankd")
    assert find(flags()).database == near


def test_a_broker_in_the_environment_means_the_bus_whatever_lies_about(nowhere, monkeypatch):
    running(nowhere / ".rankd")
    monkeypatch.setenv("RANKD_NATS", "nats://elsewhere:1")
    place = find(flags())
    assert (place.nats, place.database, place.uses_bus) == ("nats://elsewhere:1", None, True)
    assert place.explained() == "asks the broker nats://elsewhere:1: named by $RANKD_NATS"


def test_an_option_wins_over_the_whole_environment(nowhere, monkeypatch):
    database = running(nowhere / "elsewhere")
    monkeypatch.setenv("RANKD_NATS", "nats://environment:1")
    monkeypatch.setenv("RANKD_DB", "environment.db")
    place = find(flags(directory="elsewhere"))
    assert (place.nats, place.database, place.uses_bus) == ("nats://up:1", database, False)
    assert find(flags(nats="nats://flag:1"))[1:4] == ("nats://flag:1", None, True)
    assert find(flags(db="flag.db"))[1:4] == (None, Path("flag.db"), False)


def test_a_database_that_is_named_belongs_to_the_broker_of_the_up_beside_it(nowhere):
    database = running(nowhere / "elsewhere")
    assert find(flags(db=str(database))).nats == "nats://up:1"
    other = nowhere / "elsewhere" / "copy.db"
    other.touch()
    place = find(flags(db=str(other)))
    assert place.nats is None
    with pytest.raises(Unavailable, match="nothing says which broker belongs to the database"):
        place.need_nats()


def test_directory_and_database_of_different_sites_are_an_error(nowhere):
    running(nowhere / "one")
    with pytest.raises(Refused, match="is not the one of the `rankd up` in one") as refused:
        find(flags(directory="one", db="other.db"))
    assert refused.value.code == "usage"


def test_a_directory_that_others_can_write_is_passed_over_and_the_user_hears_of_it(nowhere, capsys):
    running(nowhere / ".rankd")
    (nowhere / ".rankd").chmod(0o777)
    mine = running(nowhere.parent / ".rankd")
    assert find(flags()).database == mine
    assert "passed over" in capsys.readouterr().err


def test_a_planted_directory_is_passed_over(nowhere, capsys):
    running(nowhere / ".rankd")
    os.chown(nowhere / ".rankd", 12345, 12345)
    with pytest.raises(Unavailable, match=r"passed over .*\.rankd: it belongs to user 12345"):
        find(flags()).need_nats()
    assert capsys.readouterr().err == ""


def test_a_link_is_passed_over_but_may_be_named(nowhere):
    running(nowhere / "real")
    (nowhere / ".rankd").symlink_to("real")
    with pytest.raises(Unavailable, match="symbolic link"):
        find(flags()).need_nats()
    assert find(flags(directory=".rankd")).nats == "nats://up:1"


def test_an_up_file_that_others_can_write_is_not_believed(nowhere):
    running(nowhere / ".rankd")
    (nowhere / ".rankd" / "up.json").chmod(0o666)
    with pytest.raises(Refused, match=r"up\.json: others than its owner can write to it"):
        find(flags())


def test_the_users_own_file_is_the_last_source(nowhere, tmp_path):
    user_file(tmp_path, 'nats = "nats://mine:4222"\n')
    place = find(flags())
    assert (place.nats, place.uses_bus) == ("nats://mine:4222", True)
    assert "client.toml" in place.explained()
    database = running(nowhere / ".rankd")
    assert find(flags()).database == database


@pytest.mark.usefixtures("nowhere")
def test_the_users_own_file_may_name_credentials(tmp_path):
    user_file(tmp_path, 'nats = "nats://mine:4222"\ncreds = "/home/me/me.creds"\n')
    assert find(flags()).creds == Path("/home/me/me.creds")


@pytest.mark.parametrize(
    "text",
    [
        "nats = 'x'\ncreds = 4",
        "creds = 'x'",
        "nats = 4",
        "nats = ''",
        "nat = 'x'",
        "nats = 'x'\ndb = 'y'",
        "nats",
        "\xff",
    ],
)
def test_a_users_own_file_that_is_wrong_is_named(tmp_path, text):
    user_file(tmp_path, text)
    with pytest.raises(Refused, match=r"client\.toml"):
        find(flags())


def test_a_removed_current_directory_is_no_error(nowhere):
    nowhere.rmdir()
    with pytest.raises(Unavailable, match="found no rankd"):
        find(flags()).need_nats()


def test_verbose_says_what_was_chosen_once(nowhere, capsys):
    running(nowhere / ".rankd")
    asked = flags(verbose=True)
    find(asked)
    find(asked)
    assert capsys.readouterr().err == f"rankd: reads the database {nowhere}/.rankd/rankd.db: found {nowhere}/.rankd\n"


def test_verbose_says_the_way_that_is_taken(nowhere, capsys):
    running(nowhere / ".rankd", login=str(nowhere / "login.sock"))
    (nowhere / "login.sock").touch()

    def said(**given):
        find(argparse.Namespace(**vars(flags(verbose=True)) | {"looks": False} | given))
        return capsys.readouterr().err

    assert said() == f"rankd: asks the login socket {nowhere}/login.sock: found {nowhere}/.rankd\n"
    for other in ({"admin": True}, {"asker": "somebody"}, {"needs_broker": True}, {"enqueue": True}):
        assert said(**other) == f"rankd: asks the broker nats://up:1: found {nowhere}/.rankd\n"
    assert said(looks=True).startswith("rankd: reads the database")


def test_no_secret_is_shown(capsys):
    find(flags(nats="nats://alice:secret@broker:1", verbose=True))
    assert capsys.readouterr().err == "rankd: asks the broker nats://broker:1: named by --nats\n"


def test_the_database_is_found_while_nothing_runs(nowhere):
    (nowhere / ".rankd").mkdir()
    (nowhere / ".rankd" / "rankd.db").touch()
    place = find(flags())
    assert place.need_database() == nowhere / ".rankd/rankd.db"
    with pytest.raises(Unavailable, match="start `rankd up`, or give --nats URL"):
        place.need_nats()


def test_nothing_found_says_what_to_do():
    with pytest.raises(Unavailable, match="start `rankd up`, or give --nats URL"):
        find(flags()).need_database()


def test_nothing_found_names_the_ways_of_those_who_did_not_start_it():
    with pytest.raises(Unavailable, match=r"a token, use `rankd login`; if a directory, --dir DIR"):
        find(flags()).need_nats()


def test_the_directory_above_that_of_up_is_answered_with_the_right_one(nowhere):
    (nowhere / ".rankd").mkdir()
    with pytest.raises(Unavailable, match=rf"nothing runs in {nowhere}.* or is {nowhere}/\.rankd meant\?"):
        find(flags(directory=nowhere)).need_nats()


def test_a_command_on_the_file_says_why_a_broker_is_not_enough(monkeypatch):
    monkeypatch.setenv("RANKD_NATS", "nats://elsewhere:1")
    with pytest.raises(Refused, match=r"named by \$RANKD_NATS is a broker: give --db FILE"):
        find(flags()).need_database()


def test_a_database_that_is_not_there_is_named():
    with pytest.raises(Unavailable, match=r"no database at gone\.db"):
        find(flags(db="gone.db")).need_database()


def test_databases_are_files_or_sqlite_urls():
    assert sqlite_file("sqlite:////var/lib/rankd.db") == Path("/var/lib/rankd.db")
    assert sqlite_file("a/rankd.db") == Path("a/rankd.db")
    with pytest.raises(Refused, match="SQLite"):
        sqlite_file("postgresql://host/rankd")


@pytest.mark.usefixtures("nowhere")
def test_a_server_is_named_by_its_url():
    place = find(flags(db="postgresql://rankd@host/rankd"))
    assert place.need_database() == "postgresql://rankd@host/rankd"
    assert (place.database, place.uses_bus) == (None, False)


def test_a_broken_up_file_is_named(nowhere):
    (nowhere / ".rankd").mkdir()
    (nowhere / ".rankd" / "up.json").write_text("{")
    with pytest.raises(RankdError, match=r"up\.json"):
        find(flags())


def test_what_up_says_of_encryption_counts_for_its_broker(nowhere, monkeypatch):
    running(nowhere / ".rankd", nats="tls://up:1", ca="/up/ca.pem", tls_cert=None)
    monkeypatch.setenv("RANKD_CA", "/environment/ca.pem")
    monkeypatch.setenv("RANKD_TLS_KEY", "/environment/key.pem")
    assert find(flags()).tls == TlsFiles(ca=Path("/up/ca.pem"))
    named = flags()
    named.ca = "other.pem"
    assert find(named).tls.ca == Path("other.pem")


def test_a_broker_that_is_named_has_the_files_of_options_then_of_the_environment(monkeypatch):
    monkeypatch.setenv("RANKD_CA", "/environment/ca.pem")
    monkeypatch.setenv("RANKD_TLS_CERT", "/environment/cert.pem")
    named = flags(nats="tls://there:1")
    named.ca = "~/ca.pem"
    assert find(named).tls == TlsFiles(Path("~/ca.pem").expanduser(), Path("/environment/cert.pem"), None)


def test_the_users_own_file_names_files_for_encryption(tmp_path):
    user_file(tmp_path, 'nats = "tls://head:4222"\nca = "~/ca.pem"\ntls_cert = "/c.pem"\ntls_key = "/k.pem"\n')
    assert find(flags()).tls == TlsFiles(Path("~/ca.pem").expanduser(), Path("/c.pem"), Path("/k.pem"))


@pytest.mark.parametrize("more", ["ca = 1", 'ca = ""', 'tls = "x"', "tls_key = []"])
def test_what_the_users_own_file_can_not_say_is_refused(tmp_path, more):
    user_file(tmp_path, f'nats = "tls://head:4222"\n{more}\n')
    with pytest.raises(Refused, match="also known here: ca, tls_cert, tls_key"):
        find(flags())
