"""An intake whose records are in PostgreSQL: its identity, and NUL characters, which the server does not store."""

import psycopg
import pytest
from integration.intake_stage import IntakeOptions
from integration.stage import connected, ready, running, true_in_time, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.cli.main import main
from rankd.services.intake.service import run
from rankd.store.engine.postgres_connection import connect

NUL = "a\0b"
SHOWN = "a\N{REPLACEMENT CHARACTER}b"
REFUSED = [
    {"name": NUL}, {"comment": NUL}, {"key": NUL}, {"application": NUL}, {"user": NUL}, {"account": NUL},
    {"queue": NUL}, {"qos": NUL}, {"partition": NUL}, {"priority_class": NUL}, {"preemption_policy": NUL},
    {"constraints": NUL}, {"array": NUL}, {"resources": {NUL: 1}}, {"resources": {"vcore": NUL}},
    {"command": ["true", NUL]}, {"env": {NUL: "x"}}, {"env": {"X": NUL}}, {"cwd": NUL}, {"stdout": NUL},
    {"script": "#!/bin/sh\n\0"},
]  # fmt: skip
NODE = "rankd.v1.node.n1.register"
DRAIN = "rankd.v1.admin.root.node.drain"


@pytest.fixture(autouse=True)
def schema(url):
    """Alembic has an event loop of its own, so this is before the test's."""
    assert main(["db", "upgrade", "--db", url]) == 0


def values(url, query):
    with psycopg.connect(url) as connection:
        return [value for (value,) in connection.execute(query)]


async def test_the_site_is_that_of_the_database_on_the_server(broker, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = IntakeOptions(nats=broker.url, db=url, config=write_config(tmp_path / "config"))
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options):
        await ready(bus, "intake")
        site = (await client.do("site.show")).body
    [number] = values(url, "SELECT oid FROM pg_database WHERE datname = current_database()")
    assert site["machine"].startswith("postgresql ")
    assert site["device"] == number


async def test_no_text_with_a_nul_stops_the_intake(broker, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the lock of the role is in .rankd
    options = IntakeOptions(nats=broker.url, db=url, config=write_config(tmp_path / "config"))
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options):
        await ready(bus, "intake")
        for fields in REFUSED:
            reply = await client.do("job.submit", {"command": ["true"], **fields})
            assert reply.status in (400, 403, 404), (fields, reply)
        body = b'{"command": ["true"], "queue": "a\\u0000b"}'
        await client.connection.jetstream().publish("rankd.v1.enqueue.alice", body, timeout=PATIENCE_S)
        assert (await client.do("job.list", {"users": [NUL]})).body["code"] == "unknown_user"
        assert (await client.ask(NODE, {"resources": {"vcore": 2}, "agent": "n1", "labels": {"x": NUL}})).status is None
        for nodes, reason in (["n1"], NUL), ([NUL], "x"):
            reply = await client.ask(DRAIN, {"nodes": nodes, "reason": reason})
            assert reply.status != 500, reply
        job = await client.submit()
        await true_in_time(lambda: values(url, "SELECT count(*) FROM dead_letters") == [1])
    assert values(url, "SELECT id FROM jobs") == [job]
    assert SHOWN in values(url, "SELECT message FROM dead_letters")[0]


def test_json_is_read_with_its_escaped_nul_replaced_and_a_backslash_before_the_escape_is_not_one(url):
    document = r'["a\u0000\u0000b", "\\u0000", "\\\u0000"]'
    with connect(url) as connection:
        found = [value for (value,) in connection.execute("SELECT value FROM rankd_texts(?) ORDER BY key", (document,))]
        at = connection.execute("SELECT rankd_text_at(?, '$[0]')", (document,)).fetchone()
    mark = "\N{REPLACEMENT CHARACTER}"
    assert found == [f"a{mark}{mark}b", r"\u0000", f"\\{mark}"]
    assert at == (f"a{mark}{mark}b",)
