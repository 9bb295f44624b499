"""Which file ``--db`` names."""

import pytest

from rankd.core.errors import Unavailable
from rankd.store.engine.url import sqlite_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/var/lib/rankd.db", "/var/lib/rankd.db"),
        ("sqlite:////var/lib/rankd.db", "/var/lib/rankd.db"),
        ("sqlite+aiosqlite:////var/lib/rankd.db", "/var/lib/rankd.db"),
    ],
)
def test_a_database_is_named_by_path_or_url(url, path):
    assert str(sqlite_path(url)) == path


@pytest.mark.parametrize("url", ["sqlite:///x.db", "x.db"])
def test_relative_paths_begin_at_the_working_directory(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sqlite_path(url) == tmp_path / "x.db"


@pytest.mark.parametrize("url", ["postgresql://host/rankd", "sqlite://", "mysql:///x"])
def test_other_databases_are_refused(url):
    with pytest.raises(Unavailable) as caught:
        sqlite_path(url)
    assert caught.value.code == "unsupported_database"
