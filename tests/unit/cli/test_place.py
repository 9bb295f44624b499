import argparse
import json
from pathlib import Path

import pytest

from rankd.cli.place import find, sqlite_file
from rankd.core.errors import RankdError, Refused, Unavailable


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RANKD_DIR", "RANKD_NATS", "RANKD_DB"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def flags(*, directory=None, nats=None, db=None):
    return argparse.Namespace(dir=directory, nats=nats, db=db)


def running(directory, **changes):
    directory.mkdir(exist_ok=True)
    up = {"nats": "nats://up:1", "db": "/up/rankd.db", "pids": {"intake": 1}, "ready": True} | changes
    (directory / "up.json").write_text(json.dumps(up))


def test_up_says_where_everything_is(nowhere):
    running(nowhere / ".rankd")
    place = find(flags())
    assert (place.nats, place.database) == ("nats://up:1", Path("/up/rankd.db"))


def test_the_environment_overrides_up_and_flags_override_both(nowhere, monkeypatch):
    running(nowhere / "elsewhere")
    monkeypatch.setenv("RANKD_DIR", "elsewhere")
    assert find(flags()).nats == "nats://up:1"
    monkeypatch.setenv("RANKD_NATS", "nats://environment:1")
    monkeypatch.setenv("RANKD_DB", "environment.db")
    assert find(flags())[1:3] == ("nats://environment:1", Path("environment.db"))
    assert find(flags(nats="nats://flag:1", db="flag.db"))[1:3] == ("nats://flag:1", Path("flag.db"))


def test_the_database_is_found_while_nothing_runs(nowhere):
    (nowhere / ".rankd").mkdir()
    (nowhere / ".rankd" / "rankd.db").touch()
    place = find(flags())
    assert place.need_database() == Path(".rankd/rankd.db")
    with pytest.raises(Unavailable, match="start `rankd up`, or give --nats URL"):
        place.need_nats()


def test_nothing_found_says_what_to_do():
    with pytest.raises(Unavailable, match="start `rankd up`, or give --db FILE"):
        find(flags()).need_database()


def test_a_database_that_is_not_there_is_named():
    with pytest.raises(Unavailable, match=r"no database at gone\.db"):
        find(flags(db="gone.db")).need_database()


def test_naming_the_broker_alone_means_asking_it(nowhere):
    running(nowhere / ".rankd")
    assert find(flags(nats="nats://flag:1")).by_bus
    assert not find(flags(nats="nats://flag:1", db="flag.db")).by_bus
    assert not find(flags()).by_bus


def test_databases_are_files_or_sqlite_urls():
    assert sqlite_file("sqlite:////var/lib/rankd.db") == Path("/var/lib/rankd.db")
    assert sqlite_file("a/rankd.db") == Path("a/rankd.db")
    with pytest.raises(Refused, match="SQLite"):
        sqlite_file("postgresql://host/rankd")


def test_a_broken_up_file_is_named(nowhere):
    (nowhere / ".rankd").mkdir()
    (nowhere / ".rankd" / "up.json").write_text("{")
    with pytest.raises(RankdError, match=r"up\.json"):
        find(flags())
