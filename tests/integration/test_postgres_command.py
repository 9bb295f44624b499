"""Commands on a PostgreSQL server: its schema, its state, queries, and what looking commands show."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import server

from rankd.cli.main import main


@pytest.fixture
def url():
    name = server().make()
    yield server().url(name)
    server().drop(name)


def test_a_schema_is_made_once_and_its_state_is_shown(url, capsys):
    assert main(["db", "upgrade", "--db", url]) == 0
    assert main(["db", "upgrade", "--db", url]) == 0
    capsys.readouterr()
    assert main(["db", "check", "--db", url]) == 1, "the tests' server runs without fsync"
    shown = capsys.readouterr().out
    assert "PostgreSQL" in shown
    assert "fsync is off" in shown


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
