"""What only SQLite has of the schema, and rows of older schemas; tests/contract/test_migration.py has the rest."""

from contextlib import closing, contextmanager

import pytest
from alembic import command
from alembic.config import Config
from builder import new_database
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.schema.generation_table import metadata
from rankd.store.schema.migration import shipped, upgrade
from rankd.store.schema.view import fixed_views


@pytest.fixture
async def database(tmp_path):
    async with open_database(new_database(tmp_path), durable=False) as opened:
        yield opened


def newest() -> str:
    """The last revision, by the files' names."""
    return max(path.name for path in (shipped("migrations") / "versions").glob("*.py")).split("_")[0]


async def test_columns_and_indices_of_migrations_are_those_of_the_models_to_the_last_default(database):
    with closing(sqlite3.connect(":memory:")) as connection:
        engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: connection)
        metadata.create_all(engine)
        modelled = {table: described(connection.execute, table) for table in metadata.tables}
    migrated = await database.read(lambda c: {table: described(c.exec_driver_sql, table) for table in metadata.tables})
    assert migrated == modelled


def described(execute, table):
    columns = [tuple(row)[1:] for row in execute(f"PRAGMA table_info({table})")]
    indices = sorted(tuple(row)[1:] for row in execute(f"PRAGMA index_list({table})"))
    members = {name: [tuple(row) for row in execute(f"PRAGMA index_info({name})")] for name, *_ in indices}
    conditions = sorted(
        row[0] or "" for row in execute(f"SELECT sql FROM sqlite_master WHERE tbl_name = '{table}' AND type = 'index'")
    )
    (own,) = (row[0] for row in execute(f"SELECT sql FROM sqlite_master WHERE name = '{table}'"))
    return columns, indices, members, conditions, "AUTOINCREMENT" in own, "WITHOUT ROWID" in own


async def test_an_upgrade_keeps_what_is_stored_and_makes_the_views_anew(database):
    await database.write(lambda c: c.exec_driver_sql("INSERT INTO qos VALUES (1, 'normal', 5, NULL, 1.0)"))
    await database.write(lambda c: c.exec_driver_sql("DROP VIEW queue_priority"))
    await database.write(lambda c: c.exec_driver_sql("CREATE VIEW queue_priority AS SELECT 'old' AS path"))
    await upgrade(database)
    assert await database.read(lambda c: c.exec_driver_sql("SELECT priority FROM qos").scalar_one()) == 5
    assert await database.read(lambda c: c.exec_driver_sql("SELECT * FROM queue_priority").all()) == []


@pytest.mark.parametrize("view", sorted(fixed_views()))
async def test_every_fixed_view_can_be_read_in_an_empty_database(database, view):
    assert await database.read(lambda c: c.exec_driver_sql(f'SELECT * FROM "{view}"').all()) == []


async def test_a_new_file_is_made_in_write_ahead_mode(tmp_path):
    path = tmp_path / "new.db"
    async with open_database(path) as database:
        await upgrade(database)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT version_num FROM schema_version").fetchall() == [(newest(),)]


def test_migrations_travel_with_rankd():
    assert (shipped("migrations") / "env.py").is_file()
    assert (shipped("config") / "rankd.toml").is_file()


def put(connection, table, **given):
    """A row with these values, and anything where something is needed."""
    columns = connection.exec_driver_sql(f"PRAGMA table_info({table})").all()
    rows = [(name, not_null and default is None and not key) for _, name, _, not_null, default, key in columns]
    needed = {name: 0 for name, is_needed in rows if is_needed}
    values = {**needed, **given}
    names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


@contextmanager
def database_at(revision):
    """A connection to a database of this revision, and what upgrades it further."""
    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    config.set_main_option("path_separator", "os")
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        yield connection, config
    engine.dispose()


def test_nodes_of_an_older_database_that_drain_go_on_draining():
    with database_at("0003") as (connection, config):
        put(connection, "nodes", name="a", state="draining", heartbeat_at=5.0)
        put(connection, "nodes", name="b", state="up", heartbeat_at=6.0)
        put(connection, "node_events", node="a", event="joined", at=4.0)
        command.upgrade(config, "0004")
        nodes = connection.exec_driver_sql("SELECT name, state, drained_by, drained_at, drain_reason FROM nodes").all()
        events = connection.exec_driver_sql("SELECT node, event, at, reason FROM node_events").all()
        command.downgrade(config, "0003")
        kept = connection.exec_driver_sql("SELECT name, state FROM nodes").all()
    assert nodes == [("a", "draining", "unknown", 5.0, None), ("b", "up", None, None, None)]
    assert events == [("a", "joined", 4.0, None)]
    assert kept == [("a", "draining"), ("b", "up")]


def test_applications_of_an_older_database_get_the_state_that_their_jobs_say():
    with database_at("0002") as (connection, config):
        jobs = {"runs": ["running", "pending"], "waits": ["pending", "completed"], "over": ["failed"], "empty": []}
        for id_, (name, states) in enumerate(jobs.items(), start=1):
            put(connection, "applications", id=id_, name=name, created_at=5.0)
            for state in states:
                put(connection, "jobs", application_id=id_, state=state)
        put(connection, "jobs", application_id=None, state="running")
        command.upgrade(config, "0003")
        found = connection.exec_driver_sql("SELECT name, state, state_at FROM applications").all()
        command.downgrade(config, "0002")
    assert {name: state for name, state, _ in found} == {
        "runs": "running", "waits": "accepted", "over": "completed", "empty": "completed",
    }  # fmt: skip
    assert {at for _, _, at in found} == {5.0}


def test_nodes_of_an_older_database_have_no_instance_and_keep_the_rest():
    with database_at("0016") as (connection, config):
        put(connection, "nodes", name="a", state="up", agent="a", heartbeat_at=5.0)
        command.upgrade(config, "0017")
        upgraded = connection.exec_driver_sql("SELECT name, state, agent, heartbeat_at, instance FROM nodes").all()
        put(connection, "nodes", name="b", state="up", agent="b", instance="0" * 32)
        command.downgrade(config, "0016")
        kept = connection.exec_driver_sql("SELECT name, agent FROM nodes ORDER BY name").all()
    assert upgraded == [("a", "up", "a", 5.0, None)]
    assert kept == [("a", "a"), ("b", "b")]


def test_events_say_who_holds_the_held_jobs_of_an_older_database():
    with database_at("0017") as (connection, config):
        held = '{"urgency": {"before": 16, "after": 0}, "held": {"before": false, "after": true}}'
        stories = {
            1: [("submit", "alice", None)],
            2: [("submit", "alice", None), ("hold", "root", None)],
            3: [("submit", "alice", None), ("update", "root", held), ("update", "bob", '{"name": {"before": "a"}}')],
            4: [("submit", "alice", None), ("hold", "root", None)],
            5: [("submit", "alice", None), ("hold", "root", None)],
        }
        for id_, events in stories.items():
            state = "cancelled" if id_ == 5 else "pending"
            put(connection, "jobs", id=id_, user="alice", state=state, held=id_ != 4)
            for event, actor, detail in events:
                put(connection, "job_events", job_id=id_, event=event, state=state, actor=actor, detail=detail)
        command.upgrade(config, "0018")
        found = connection.exec_driver_sql("SELECT id, held_by FROM jobs ORDER BY id").all()
        command.downgrade(config, "0017")
        kept = connection.exec_driver_sql('SELECT id, "user", held FROM jobs ORDER BY id').all()
    assert found == [(1, "alice"), (2, "root"), (3, "root"), (4, None), (5, None)]
    assert kept == [(id_, "alice", id_ != 4) for id_ in stories]


async def test_an_upgrade_leaves_the_current_directory_alone(tmp_path, monkeypatch):
    """SQLite lists databases without a file, too; the empty path is not to be taken for the current directory."""
    here = tmp_path / "here"
    here.mkdir(mode=0o755)
    monkeypatch.chdir(here)
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        await upgrade(database)
    assert here.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "rankd.db").stat().st_mode & 0o077 == 0
