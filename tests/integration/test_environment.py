"""A job's environment is for its owner and for administrators; the broker's address and password are never stored."""

from __future__ import annotations

import stat

import builder
import pytest
from alembic import command
from alembic.config import Config
from integration.intake_stage import an_intake
from integration.test_enqueued import enqueue, heard
from sqlalchemy import create_engine

from rankd.client.batch.request import exported
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.schema.migration import shipped, upgrade

JOB = {"command": ["true"]}
SECRET = "nats://ann:sesame@host:4222"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_only_the_owner_and_administrators_see_an_environment(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(env={"TOKEN": "mine"})
        assert (await stage.do("job.show", {"id": job})).body["env"] == {"TOKEN": "mine"}
        assert (await stage.ask("rankd.v1.admin.root.job.show", {"id": job})).body["env"] == {"TOKEN": "mine"}
        shown = (await stage.do("job.show", {"id": job}, "bob")).body
        assert shown["command"] == ["true"]
        assert "env" not in shown
        assert "mine" not in str(stage.rows("SELECT * FROM job"))


async def test_the_broker_is_never_stored_whatever_the_client_sends(broker, tmp_path):
    env = {"RANKD_NATS": SECRET, "OTHER": SECRET, "KEPT": "postgres://u:p@h/db"}
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit(env=env)
        await stage.do("job.submit", {"jobs": [{**JOB, "env": env}] * 2})
        await enqueue(stage.connection, {**JOB, "env": env})
        await stage.until(lambda: len(stage.states()) == 4)
        await enqueue(stage.connection, {**JOB, "env": env, "queue": "nowhere"})
        await enqueue(stage.connection, {"jobs": [{**JOB, "env": env, "qos": "no"}, JOB], "atomic": True})
        letters = await heard(stage, "rankd.v1.deadletter.alice", 2)
        assert all("postgres" not in letter["submission"] for letter in letters), "an environment is not shown"
        assert (await stage.do("job.show", {"id": 1})).body["env"] == {"KEPT": "postgres://u:p@h/db"}
        assert (await stage.do("deadletter.retry", {"ids": [1]})).body["failed"][0]["code"] == "unknown_queue"
    for name in ("rankd.db", "rankd.db-wal"):
        path = tmp_path / name
        assert not path.exists() or b"sesame" not in path.read_bytes()


def older_database(path, revision):
    """A file as rankd of that revision made it."""
    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    config.set_main_option("path_separator", "os")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


async def test_an_upgrade_removes_the_broker_from_stored_requests_and_takes_the_file_from_others(tmp_path):
    path = tmp_path / "before" / "rankd.db"
    path.parent.mkdir()
    older_database(path, "0012")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.executescript(
        """
        INSERT INTO jobs (id, revision, "user", association_id, queue_id, qos_id, name, state, held, class_value,
            preemption_policy, urgency, nodes, min_nodes, vcore, resources, exclusive, shape, requeue, submitted_at,
            request)
        VALUES (1, 1, 'alice', 1, 1, 1, 'one', 'completed', 0, 0, 'Never', 16, 1, 1, 1, '{}', 0, 1, 1, 1.0,
            '{"command":["true"],"env":{"RANKD_NATS":"nats://ann:sesame@h","A":"1"}}');
        """
    )
    connection.close()
    path.chmod(0o644)
    async with open_database(path, durable=False) as database:
        await upgrade(database)
        [(request,)] = await database.read(lambda c: c.exec_driver_sql("SELECT request FROM jobs").all())
    assert request == '{"command":["true"],"env":{"A":"1"}}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_new_database_is_its_owners_alone(tmp_path):
    path = tmp_path / "new" / "rankd.db"
    path.parent.mkdir()
    async with open_database(path) as database:
        await upgrade(database)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert {modes[name] for name in ("rankd.db", "rankd.db-wal", "rankd.db-shm")} == {0o600}


def test_the_command_line_sends_no_broker():
    environment = {"RANKD_NATS": SECRET, "PATH": "/bin"}
    assert exported("ALL", [], environment) == {"PATH": "/bin"}
    assert exported("RANKD_NATS,PATH", [("RANKD_NATS", "x")], environment) == {"PATH": "/bin"}
