"""``rankd db copy`` and ``db backup``: a site moves into a server and back, also after a kill in the middle."""

import asyncio
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from contract.world import fill_world
from postgres_server import server

from rankd.cli.main import main
from rankd.store.engine.lock import acquire_or_fail
from rankd.store.engine.postgres_program import program_folders
from rankd.store.engine.reading import open_for_reading
from rankd.store.engine.url import open_database

COUNTED = "SELECT reltuples FROM pg_class WHERE relname = 'job_events'"
KILLED = """
import os, signal
from rankd.cli.main import main
from rankd.cli.services.db_copy import _Progress
def note(self, table, done, total):
    if table == "job_events":
        os.kill(os.getpid(), signal.SIGKILL)
_Progress.note = note
main({words!r})
"""
QUERIES = (
    "SELECT id, state FROM jobs ORDER BY id",
    "SELECT count(*) FROM job_events",
    "SELECT count(*) FROM rank_chunks",
)


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site" / "rankd.db"
    path.parent.mkdir()

    async def fill():
        async with open_database(path) as database:
            await fill_world(database)

    asyncio.run(fill())
    return path


def rows(database):
    with closing(open_for_reading(database)) as connection:
        return [[tuple(row) for row in connection.execute(query).fetchall()] for query in QUERIES]


def words(source, target):
    return ["db", "copy", "--from", str(source), "--to", str(target)]


def killed_in_the_middle(source, target):
    done = subprocess.run([sys.executable, "-c", KILLED.format(words=words(source, target))], check=False)
    assert done.returncode == -signal.SIGKILL
    return rows(target)


def test_a_site_moves_into_a_server_and_back_also_after_a_kill(site, url, tmp_path, capsys):
    before, back = rows(site), tmp_path / "new" / "back.db"
    assert killed_in_the_middle(site, url) == [[], [(0,)], [(0,)]]
    assert main(words(site, url)) == 0
    assert "the source is unchanged" in capsys.readouterr().out
    assert rows(url) == rows(site) == before
    with closing(open_for_reading(url)) as connection:
        assert connection.execute(COUNTED).fetchone()[0] > 0, "the server's plans know how large the tables are"

    assert killed_in_the_middle(url, back) == [[], [(0,)], [(0,)]]
    assert main(words(url, back)) == 0
    assert rows(back) == before
    assert main(words(url, back)) == 0, "a repeated copy"
    assert back.stat().st_mode & 0o777 == 0o600


def test_a_running_site_another_version_and_the_same_database_are_refused(site, url, capsys):
    async def while_running():
        lock = await acquire_or_fail(site.with_name("rankd.db.scheduler.lock"), "scheduler")
        try:
            return await asyncio.to_thread(main, words(site, url))
        finally:
            lock.close()

    assert asyncio.run(while_running()) != 0
    assert "another scheduler is running" in capsys.readouterr().err
    assert main(words(site, site)) != 0
    assert main(words(url, url)) != 0
    assert main(words(site.with_name("none.db"), url)) != 0
    said = capsys.readouterr().err
    assert said.count("--from and --to are the same database") == 1
    assert "has revision None, and this version of rankd needs" in said
    assert "no database at" in said
    assert main(["db", "upgrade", "--db", url]) == 0
    assert main(words(url, url)) != 0
    assert "--from and --to are the same database" in capsys.readouterr().err
    assert not Path(site.with_name("none.db")).exists()


def test_a_backup_of_a_server_is_restored_into_an_empty_database(site, url, tmp_path, capsys):
    assert main(words(site, url)) == 0
    out = tmp_path / "rankd.dump"
    assert main(["db", "backup", str(out), "--db", url]) == 0
    assert f"{out}: " in capsys.readouterr().out
    name = server().make()
    restored = server().url(name)
    restore = [next(program_folders("pg_restore")) / "pg_restore", "--no-owner", f"--dbname={restored}", out]
    subprocess.run(restore, check=True)
    assert main(words(url, restored)) == 0, "every table is the same, so a copy has nothing to do"
    assert "copied and compared" in capsys.readouterr().out
    assert rows(restored) == rows(site)
    server().drop(name)


def test_a_backup_of_a_file_is_a_database(site, tmp_path):
    out = tmp_path / "backup.db"
    assert main(["db", "backup", str(out), "--db", str(site)]) == 0
    assert main(["db", "check", "--db", str(out)]) == 0
    assert rows(out) == rows(site)


def test_a_backup_of_a_server_that_does_not_answer_is_refused(tmp_path, capsys):
    out = tmp_path / "rankd.dump"
    assert main(["db", "backup", str(out), "--db", "postgresql://ann:secret@/x?host=/nowhere"]) != 0
    said = capsys.readouterr().err
    assert "pg_dump failed" in said
    assert "secret" not in said
    assert list(tmp_path.iterdir()) == []
