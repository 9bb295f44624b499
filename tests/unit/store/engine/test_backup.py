"""A backup is made while services run; a password is in no command line."""

from pathlib import Path

import pytest

from rankd.core.errors import Unavailable
from rankd.store.engine import backup
from rankd.store.engine.driver import sqlite3


def made(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    return connection


def test_a_file_is_copied_with_what_only_its_log_has_while_another_writes(tmp_path):
    writer = made(tmp_path / "a.db")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (2)")
    out = tmp_path / "b.db"
    out.write_text("an older one")
    backup.back_up(tmp_path / "a.db", out)
    writer.rollback()
    writer.close()
    copy = sqlite3.connect(out)
    assert copy.execute("SELECT x FROM t").fetchall() == [(1,)]
    copy.close()
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]


def test_a_backup_that_fails_leaves_the_older_one(tmp_path):
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)
    out = tmp_path / "b.db"
    out.write_text("an older one")
    with pytest.raises(Unavailable):
        backup.back_up(tmp_path / "a.db", out)
    assert out.read_text() == "an older one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]


def test_without_pg_dump_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(backup, "program_folders", lambda _: iter(()))
    with pytest.raises(Unavailable, match="pg_dump is not installed: install Debian's postgresql-client"):
        backup.dump_command("postgresql://h/x", Path("out"))


def test_a_password_is_in_the_environment_only():
    words, variables = backup.dump_command("postgresql://ann:secret@h/x", Path("out"))
    assert "secret" not in " ".join(words)
    assert variables == {"PGPASSWORD": "secret"}
