"""Readings in processes of their own: what adapters give, and every way in which they fail."""

import asyncio
import os
import re

import msgspec
import pytest

from rankd.config.adapter import load_adapter
from rankd.core.adapter.input import AssociationRow, Input, UsageRow
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import AdapterSettings
from rankd.services.prioritizer.adapter_process import read_adapter
from rankd.services.prioritizer.adapter_worker import Task
from rankd.store.engine.driver import sqlite3

LONG = "1000"


def settings(adapter, wanted="associations", **fields):
    limits = {name: fields.pop(name) for name in ("time_limit_s", "largest_bytes", "columns") if name in fields}
    return AdapterSettings(name="x", input=wanted, adapter=adapter, options=fields, **limits)


async def ask(tmp_path, adapter, wanted="associations", digest="", **fields):
    return await read_adapter(
        Task(settings=settings(adapter, wanted, **fields), directory=str(tmp_path), digest=digest)
    )


async def given(tmp_path, adapter, wanted="associations", **fields):
    answer = await ask(tmp_path, adapter, wanted, **fields)
    assert answer.error == ""
    return msgspec.json.decode(answer.input, type=Input)


async def fault(tmp_path, adapter, wanted="associations", **fields):
    answer = await ask(tmp_path, adapter, wanted, **fields)
    assert bytes(answer.input) == b"null"
    return answer.error


# --- what they give -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.csv", "account,user,shares\nphysics,alice,2\n"),
        ("s.json", '[{"account": "physics", "user": "alice", "shares": 2}]'),
        ("s.yaml", "- {account: physics, user: alice, shares: 2}\n"),
        ("s.toml", '[[rows]]\naccount = "physics"\nuser = "alice"\nshares = 2\n'),
    ],
)
async def test_a_file_in_every_format(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = await given(tmp_path, "file", path=name)
    assert found.associations == (AssociationRow(account="physics", user="alice", shares=2.0),)


async def test_what_slurm_printed(tmp_path):
    (tmp_path / "sshare.txt").write_text("Account|User|RawShares|RawUsage\nroot|||9\n a||3|9\n  a|u|1|9\n")
    found = await given(tmp_path, "file", "usage", path="sshare.txt")
    assert found.usage == (UsageRow(account="a", user="u", usage=9.0),)


async def test_a_query(tmp_path, monkeypatch):
    database(tmp_path)
    monkeypatch.setenv("SITE_DB", "site.db")
    found = await given(tmp_path, "sql", "usage", url="sqlite:///${SITE_DB}", query="SELECT * FROM used")
    assert found.usage == (UsageRow(account="a", user="u", usage=5.5), UsageRow(account="a", user="v", usage=0.0))


async def test_a_query_changes_nothing(tmp_path):
    database(tmp_path)
    query = "INSERT INTO used VALUES ('a', 'w', 1) RETURNING account, user, usage"
    assert len(await given(tmp_path, "sql", "usage", url="sqlite:///site.db", query=query)) == 1
    with sqlite3.connect(tmp_path / "site.db") as connection:
        assert connection.execute("SELECT count(*) FROM used").fetchall() == [(2,)]
    connection.close()


async def test_what_a_program_prints(tmp_path):
    argv = ["sh", "-c", 'printf "group,user\\nstaff,$WHO\\n"; echo noise >&2']
    found = await given(tmp_path, "command", "groups", argv=argv, format="csv", environment={"WHO": "alice"})
    assert [(row.group, row.user) for row in found.groups] == [("staff", "alice")]


async def test_the_same_is_not_sent_again(tmp_path):
    (tmp_path / "s.csv").write_text("account,shares\na,1\n")
    first = await ask(tmp_path, "file", path="s.csv")
    again = await ask(tmp_path, "file", path="s.csv", digest=first.digest)
    assert (again.digest, again.rows, bytes(again.input)) == (first.digest, 1, b"null")
    (tmp_path / "s.csv").write_text("account,shares\na,2\n")
    assert bytes((await ask(tmp_path, "file", path="s.csv", digest=first.digest)).input) != b"null"


# --- how they fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("account,shares\nphysics,3\nbiolo", "the last line has no end, so the file may be half written"),
        ("account,shares\nphysics,3\nbiology\n", "is it half written?"),
        ("account,share\nphysics,3\n", "row 1: unknown column 'share'; known: account, user, parent, shares"),
        ("user,shares\nalice,3\n", "'account' is needed"),
        ("account,shares\nphysics,nan\nbiology,-1\nb,inf\n", "row 2.shares: '-1' is not a finite number"),
        ("account,shares\n", "there are no rows; the last ones stay"),
    ],
)
async def test_a_bad_file_is_refused(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    assert message in await fault(tmp_path, "file", path="s.csv")


async def test_a_missing_file_and_one_that_is_no_text(tmp_path):
    assert "No such file" in await fault(tmp_path, "file", path="s.csv")
    (tmp_path / "s.csv").write_bytes(b"account\n\xff\n")
    assert "can't decode byte" in await fault(tmp_path, "file", path="s.csv")
    assert "Is a directory" in await fault(tmp_path, "file", path=".", format="csv")


async def test_a_half_written_yaml_is_refused(tmp_path):
    (tmp_path / "s.yaml").write_text("- {account: physics, shares: 2}\n- {account: bio")
    assert "half written" in await fault(tmp_path, "file", path="s.yaml")


async def test_a_file_that_never_ends_or_never_begins(tmp_path):
    assert "more than 1000 bytes" in await fault(tmp_path, "file", path="/dev/zero", format="csv", largest_bytes=1000)
    os.mkfifo(tmp_path / "fifo.csv")
    assert "took longer than" in await fault(tmp_path, "file", path="fifo.csv", time_limit_s=0.1)


async def test_a_query_that_blocks_is_ended(tmp_path):
    database(tmp_path)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS usage FROM n"
    told = await fault(tmp_path, "sql", "usage", url="sqlite:///site.db", query=endless, time_limit_s=0.1)
    assert told == "took longer than 0.1 s; ended"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT gone FROM used", "no such column: gone"),
        ("SELECT account, usage FROM used", "'user' is needed; there are: account, usage"),
        ("SELECT account, user, -usage AS usage FROM used", "row 1.usage: '-5.5' is not a finite number"),
        ("SELECT account, user, 9e999 AS usage FROM used", "row 1.usage: 'inf' is not a finite number"),
        (f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT '{'x' * 100}' FROM n", "gives more"),
    ],
)
async def test_a_bad_query_is_refused(tmp_path, query, message):
    database(tmp_path)
    url = "sqlite:///site.db"
    assert message in await fault(tmp_path, "sql", "usage", url=url, query=query, largest_bytes=100_000)


async def test_a_database_that_is_not_there_and_a_password_that_stays_secret(tmp_path):
    assert "does not exist" in await fault(tmp_path, "sql", url="sqlite:///gone.db", query="SELECT 1")
    assert not (tmp_path / "gone.db").exists()
    (tmp_path / "text.db").write_text("this is no database" * 100)
    assert "not a database" in await fault(tmp_path, "sql", url="sqlite:///text.db", query="SELECT 1 FROM x")
    told = await fault(tmp_path, "sql", url="sqlite://me:secret@/x.db", query="SELECT 1")
    assert "secret" not in told


async def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    argv = ["sh", "-c", f"sleep {LONG} > alive & sleep {LONG} > alive"]
    told = await fault(tmp_path, "command", argv=argv, format="csv", time_limit_s=0.5)
    assert told == "sh took longer than 0.4 s; ended"
    os.set_blocking(reader, True)
    assert await asyncio.to_thread(os.read, reader, 1) == b""  # its last writer is gone
    os.close(reader)


async def test_a_program_that_prints_without_end_is_ended(tmp_path):
    told = await fault(tmp_path, "command", argv=["yes"], format="csv", largest_bytes=2**20)
    assert told == "yes printed more than 1048576 bytes; ended"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program"], "No such file or directory: 'no-such-program'"),
        (["sh", "-c", "echo account; echo a; echo 'no way' >&2; exit 3"], "sh ended with 3: no way"),
        (["sh", "-c", "kill -9 $$"], "sh ended with -9: its standard error is empty"),
        (["true"], "it is empty"),
        (["printf", "account,shares\\na,1\\nb"], "half written"),
    ],
)
async def test_a_bad_program_is_refused(tmp_path, argv, message):
    assert message in await fault(tmp_path, "command", argv=argv, format="csv")


@pytest.mark.parametrize(
    ("adapter", "options", "message"),
    [
        ("nothing", {}, "no installed package provides the adapter 'nothing'; known: command, file, sql"),
        ("file", {}, "options.path: a text is needed"),
        ("file", {"path": "x.csv", "form": "csv"}, "options.form: unknown; known: path, format, delimiter"),
        ("file", {"path": "x", "format": "xml"}, "options.format: 'xml' is not one of"),
        ("sql", {"url": "what", "query": "SELECT 1"}, "options.url: this is not a URL"),
        ("sql", {"url": "sqlite:///${NOT_SET_AT_ALL}", "query": "SELECT 1"}, "variable NOT_SET_AT_ALL is not set"),
        ("command", {"argv": "sshare -P", "format": "csv"}, "options.argv: a list is needed"),
        ("command", {"argv": ["x"], "format": "yaml"}, "options.format: 'yaml' is not one of csv, json, slurm"),
    ],
)
def test_bad_options_are_told_without_reading(tmp_path, adapter, options, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        load_adapter(settings(adapter, **options), str(tmp_path))


def database(tmp_path):
    with sqlite3.connect(tmp_path / "site.db") as connection:
        connection.execute("CREATE TABLE used (account TEXT, user TEXT, usage REAL)")
        connection.executemany("INSERT INTO used VALUES (?, ?, ?)", [("a", "u", 5.5), ("a", "v", 0)])
    connection.close()
