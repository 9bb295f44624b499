"""Every migration leads to the declared tables, from an empty store and from each earlier revision with rows in it."""

import asyncio

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from contract.engine import ENGINES
from contract.store import Store
from psycopg.types.numeric import IntDumper
from sqlalchemy import MetaData, insert, inspect, select

from rankd.store.engine.postgres_connection import driver_of
from rankd.store.schema.generation_table import metadata
from rankd.store.schema.migration import make_tables, shipped, upgrade
from rankd.store.schema.view import fixed_views

VERSION_TABLE = "schema_version"
OWN_TABLES = {VERSION_TABLE, "last_ids"}
"""Tables that are not declared: Alembic's, and the one in which PostgreSQL keeps the largest ids."""
FIRST_IN = {"sqlite": "0001", "postgresql": "0032"}
"""The oldest revision that a database of this kind can have."""
MADE_ANEW = {"ranking_chunks", "rank_chunks", "wait_reasons"}
"""Tables whose rows an upgrade may delete: the next ranking or cycle writes them again."""
DROPPED = {"allocations": {"published", "cancel_published"}}
"""Internal columns that an upgrade may drop, since another one has their meaning."""


def configured():
    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    config.set_main_option("path_separator", "os")
    return config


def revisions():
    """All revisions, the oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(configured()).walk_revisions()][::-1]


def revisions_in(name):
    """The revisions that a database of this kind can have."""
    return [revision for revision in revisions() if revision >= FIRST_IN[name]]


def upgrade_to(connection, revision):
    if connection.dialect.name == "postgresql" and not inspect(connection).has_table(VERSION_TABLE):
        make_tables(connection)  # that of the newest revision
    config = configured()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@pytest.fixture
def connection(engine, tmp_path):
    """A connection to a store without a schema, in one transaction."""
    opened = engine.connect(tmp_path)
    with opened.begin() as connection:
        yield connection
    opened.dispose()


def tables_of(connection):
    found = MetaData()
    found.reflect(connection)
    return {name: table for name, table in found.tables.items() if name not in OWN_TABLES}


def fill(connection):
    """One row in each table, with a value in each column that needs one."""
    for table in tables_of(connection).values():
        needed = [
            column
            for column in table.columns
            if column.primary_key or not (column.nullable or column.server_default is not None)
        ]
        connection.execute(insert(table).values({column.name: _any(column) for column in needed}))


def _any(column):
    kind = column.type.python_type
    return kind(1) if kind in (int, float, bool) else b"1" if kind is bytes else "1"


def contents(connection):
    return {
        name: [dict(row) for row in connection.execute(select(table)).mappings()]
        for name, table in tables_of(connection).items()
    }


def differences(connection):
    def is_declared(_object, name, kind, *_):
        if kind == "foreign_key_constraint":  # only SQLite stores them; neither enforces them
            return connection.dialect.name == "sqlite"
        return kind != "table" or name not in OWN_TABLES

    if connection.dialect.name == "postgresql":  # what reads its catalogs needs small numbers
        driver_of(connection).adapters.register_dumper(int, IntDumper)
    options = {"version_table": VERSION_TABLE, "compare_type": True, "include_object": is_declared}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def test_each_revision_follows_the_one_before(connection):
    for revision in revisions_in(connection.dialect.name):
        upgrade_to(connection, revision)
    assert differences(connection) == []


FROM = [(engine, revision) for engine in ENGINES for revision in revisions_in(engine.name)]


@pytest.mark.parametrize(
    ("engine", "revision"), FROM, indirect=["engine"], ids=[f"{engine.name}-{revision}" for engine, revision in FROM]
)
def test_an_upgrade_from_any_revision_keeps_a_row_of_every_table(connection, revision):
    upgrade_to(connection, revision)
    fill(connection)
    before = contents(connection)
    upgrade_to(connection, "head")
    after = contents(connection)
    assert all(len(rows) == 1 for rows in before.values())
    for table in before.keys() - MADE_ANEW:
        [old], [new] = before[table], after[table]
        assert {name: new[name] for name in old if name in new} == {
            name: value for name, value in old.items() if name in new
        }
        assert not old.keys() - new.keys() - DROPPED.get(table, set()), f"an upgrade drops columns of {table}"
    assert differences(connection) == []


async def test_the_newest_schema_has_the_declared_tables_and_the_fixed_views(store):
    def names(connection):
        found = inspect(connection)
        return set(found.get_table_names()) - OWN_TABLES, set(found.get_view_names())

    tables, views = await store.read(names)
    assert tables == set(metadata.tables)
    assert views == set(fixed_views())
    assert await store.write(differences) == []


async def test_an_upgrade_keeps_the_rows_and_does_nothing_twice(world):
    tables = {name: await world.rows(name) for name in metadata.tables}
    views = {name: await world.rows(name) for name in fixed_views()}
    await upgrade(world.database)
    assert await world.write(differences) == []
    assert {name: await world.rows(name) for name in tables} == tables
    assert {name: await world.rows(name) for name in views} == views


async def test_two_services_that_upgrade_at_once_make_one_schema(engine, tmp_path):
    async with engine.open(tmp_path) as one, engine.open(tmp_path) as other:
        await asyncio.gather(upgrade(one), upgrade(other))
        assert await Store(one).rows("job") == []
        assert [row["version_num"] for row in await Store(other).rows(VERSION_TABLE)] == revisions()[-1:]


@pytest.mark.parametrize("engine", ENGINES[:1], indirect=True, ids=["sqlite"])
def test_arrays_of_before_get_the_first_start_the_last_end_and_the_highest_exit_status(connection):
    upgrade_to(connection, "0029")
    tables = tables_of(connection)
    needed = {
        name: {column.name: _any(column) for column in tables[name].columns if not column.nullable}
        for name in ("jobs", "arrays")
    }
    array = {"started_at": 9.0, "array_job": None, "exit_status": None}
    tasks = [
        {"id": 2, "started_at": 7.0, "ended_at": 10.0, "exit_status": 3, "signal": 0},
        {"id": 3, "started_at": 5.0, "ended_at": 20.0, "exit_status": 4, "signal": 1},
        {"id": 4, "started_at": 6.0, "ended_at": 15.0, "exit_status": None, "signal": 9},
    ]
    connection.execute(insert(tables["jobs"]).values(needed["jobs"] | array | {"id": 1}))
    for place, task in enumerate(tasks):
        connection.execute(insert(tables["jobs"]).values(needed["jobs"] | task | {"array_job": 1, "array_task": place}))
    connection.execute(insert(tables["arrays"]).values(needed["arrays"] | {"job_id": 1}))
    upgrade_to(connection, "head")
    whole, *others = contents(connection)["jobs"]
    assert [whole[name] for name in ("started_at", "exit_status", "signal")] == [5.0, 4, 1]
    assert [one["started_at"] for one in others] == [7.0, 5.0, 6.0]
    assert contents(connection)["arrays"][0]["ended_at"] == 20.0


@pytest.mark.parametrize("engine", ENGINES[:1], indirect=True, ids=["sqlite"])
def test_old_jobs_that_were_killed_for_memory_get_the_state_and_others_keep_theirs(connection):
    upgrade_to(connection, "0042")
    tables = tables_of(connection)
    needed = {
        name: {column.name: _any(column) for column in tables[name].columns if not column.nullable}
        for name in ("jobs", "job_events")
    }
    single = dict.fromkeys(("array_job", "array_task", "key", "application_id"))
    ends = [("failed", "out_of_memory"), ("failed", None), ("cancelled", "cancel")]
    for number, (state, cause) in enumerate(ends, 1):
        connection.execute(insert(tables["jobs"]).values(needed["jobs"] | single | {"id": number, "state": state}))
        event = {"id": number, "job_id": number, "event": "fail", "state": state, "cause": cause}
        connection.execute(insert(tables["job_events"]).values(needed["job_events"] | event))
    upgrade_to(connection, "head")
    assert [row["state"] for row in contents(connection)["jobs"]] == ["out_of_memory", "failed", "cancelled"]
    events = [(row["event"], row["state"], row["cause"]) for row in contents(connection)["job_events"]]
    assert events[:2] == [("exceed_memory", "out_of_memory", "out_of_memory"), ("fail", "failed", None)]
