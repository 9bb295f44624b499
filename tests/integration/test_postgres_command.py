"""Commands on a PostgreSQL server: its schema, its state, queries, and what looking commands show."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from contract.world import fill_world
from postgres_server import server

from rankd.cli.main import main
from rankd.store.engine.url import open_database


def test_a_schema_is_made_once_and_its_state_is_shown(url, capsys):
    assert main(["db", "upgrade", "--db", url]) == 0
    assert main(["db", "upgrade", "--db", url]) == 0
    capsys.readouterr()
    assert main(["db", "check", "--db", url]) == 1, "the tests' server runs without fsync"
    shown = capsys.readouterr().out
    assert "PostgreSQL" in shown
    assert "fsync is off" in shown


def test_a_database_without_unicode_is_refused(capsys):
    server().do("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    assert main(["db", "upgrade", "--db", server().url("ascii")]) != 0
    assert "the database has the encoding SQL_ASCII, and texts need UTF8" in capsys.readouterr().err
    server().drop("ascii")


def test_a_query_is_limited_and_cannot_write(url, capsys):
    main(["db", "upgrade", "--db", url])
    capsys.readouterr()
    assert main(["db", "sql", "SELECT count(*) AS n, 1.5 AS x FROM job", "--json", "--db", url]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 0, "x": 1.5}]
    assert main(["db", "sql", "DELETE FROM jobs", "--db", url]) != 0
    assert "read-only transaction" in capsys.readouterr().err
    assert main(["db", "sql", "SELECT pg_sleep(60)", "--limit-s", "0.1", "--db", url]) != 0
    assert "took over 0.1 s" in capsys.readouterr().err


def test_looking_commands_read_the_server(url, capsys):
    main(["db", "upgrade", "--db", url])
    capsys.readouterr()
    command = [Path(sys.executable).with_name("rankd"), "queue", "--json", "--db", url]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == []


def test_a_server_that_does_not_answer_is_named_without_its_password(capsys):
    assert main(["db", "sql", "SELECT 1", "--db", "postgresql://rankd:secret@/x?host=/nowhere"]) != 0
    shown = capsys.readouterr().err
    assert "rankd:***@" in shown
    assert "secret" not in shown


LEFT = ("SELECT id, state FROM jobs ORDER BY id", "SELECT count(*) FROM job_events", "SELECT sum(jobs) FROM usage_day")


async def left_in(database):
    async with open_database(database) as opened:
        return [await opened.read(lambda c, q=q: list(map(tuple, c.exec_driver_sql(q)))) for q in LEFT]


def pruned(database, capsys):
    """What the command prints about the world of the contract suite, and what it leaves."""

    async def fill():
        async with open_database(database) as opened:
            await fill_world(opened)

    asyncio.run(fill())
    before = asyncio.run(left_in(database))
    capsys.readouterr()
    assert main(["db", "prune", "--before", "now-1hour", "--db", database]) == 0
    return capsys.readouterr().out, before, asyncio.run(left_in(database))


def test_prune_deletes_the_same_as_in_sqlite(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown, before, left = pruned(url, capsys)
    assert shown.startswith("jobs         1 deleted\n")
    assert len(left[0]) == len(before[0]) - 1
    assert (shown, before, left) == pruned(str(tmp_path / "rankd.db"), capsys)
