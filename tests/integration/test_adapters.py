"""Inputs from outside while rankd runs: they take effect without a restart, and a failing one changes nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, closing
from functools import partial

import builder
import msgspec
import pytest
from integration.stage import ASK_EVERY_S, NOW, PATIENCE_S, a_cluster, connected, ready, rows, running, write_config

from rankd.bus.connection import Bus
from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.adapter.input import Range, checked_input
from rankd.services.intake import service as intake
from rankd.services.intake.configuration_keeper import read_directory, start_with
from rankd.services.intake.service import IntakeOptions
from rankd.services.prioritizer import service as prioritizer
from rankd.services.prioritizer.service import PrioritizerOptions
from rankd.services.runtime.input_follower import InputFollower
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.store.record.adapter import StoredInput, in_force, inputs_revision
from rankd.store.record.adapter_result import register_adapters, save_input
from rankd.store.record.catalog import read_catalog, sync_catalog
from rankd.wire.message import AdapterEvent

PERIOD_S = 0.1
ADAPTER = """
[[adapters]]
name = "{name}"
input = "{input}"
adapter = "{adapter}"
period_s = {period}
{more}
options = {options}
"""


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def site(tmp_path, *adapters, **settings):
    """A configuration with these adapters."""
    config = write_config(tmp_path / "config", **settings)
    with (config / "rankd.toml").open("a") as file:
        file.writelines(adapters)
    return config


def adapter(name="shares", wanted="associations", options='{ path = "shares.csv" }', more="", plugin="file"):
    return ADAPTER.format(name=name, input=wanted, adapter=plugin, period=PERIOD_S, more=more, options=options)


def options(kind, broker, tmp_path, config):
    return kind(nats=broker.url, db=str(tmp_path / "rankd.db"), config=config)


@asynccontextmanager
async def a_prioritizer(broker, tmp_path, config):
    """One that runs, and a client that hears of every event."""
    async with (
        connected(broker.url) as client,
        running(prioritizer.run, options(PrioritizerOptions, broker, tmp_path, config)),
    ):
        yield client


def shares(tmp_path):
    """What `rankd share` shows: (account, user) to shares and fair share of the newest generation."""
    query = 'SELECT account, "user", shares, fairshare FROM association_share WHERE generation IS NOT NULL'
    return {(account, user): (share, fair) for account, user, share, fair in rows(tmp_path / "rankd.db", query)}


def status(tmp_path, name="shares"):
    query = "SELECT state, rows, failures, message FROM adapter WHERE name = ?"
    found = rows(tmp_path / "rankd.db", query, name)
    return found[0] if found else None


def replace(path, text):
    """As whole files are replaced: beside, then renamed."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


async def test_changed_shares_take_effect_without_a_restart(broker, tmp_path):
    config = site(tmp_path, adapter())
    replace(config / "shares.csv", "account,user,shares\nphysics,alice,3\nphysics,bob,1\n")
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: shares(tmp_path).get(("physics", "alice"), (0, 0))[0] == 3.0)
        replace(
            config / "shares.csv", "account,user,shares\nphysics,alice,parent\nphysics,bob,0\nlabs,,5\nlabs,carol,2\n"
        )
        await client.until(lambda: ("labs", "carol") in shares(tmp_path))
        found = shares(tmp_path)
        assert found["physics", "alice"][0] == "parent"
        assert found["physics", "bob"] == (0.0, 0.25)  # of four users, alone at the end
        assert found["labs", "carol"][0] == 2.0
        assert status(tmp_path) == ("ok", 4, 0, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("account,user,shares\nphysics,alice,7\nphysics,bo", "half written"),
        ("account,user,weight\nphysics,alice,7\n", "unknown column 'weight'"),
        ("account,user,shares\nphysics,alice,nan\n", "row 1.shares: 'nan'"),
        ("account,user,shares\nphysics,alice,-1\n", "row 1.shares: '-1'"),
        ("account,parent\na,b\nb,a\n", "accounts are their own ancestors: a -> b -> a"),
        ("account,parent\na,nowhere\n", "unknown parent 'nowhere'"),
        ("account,user\nnowhere,alice\n", "unknown account 'nowhere'"),
    ],
)
async def test_a_failing_adapter_leaves_its_last_good_input_in_force_and_says_why(broker, tmp_path, text, message):
    config = site(tmp_path, adapter())
    replace(config / "shares.csv", "account,user,shares\nphysics,alice,3\n")
    async with a_prioritizer(broker, tmp_path, config) as client:
        events = await client.connection.subscribe("rankd.v1.event.adapter.shares")
        await client.until(lambda: status(tmp_path) == ("ok", 1, 0, None))
        if text is None:
            (config / "shares.csv").unlink()
        else:
            replace(config / "shares.csv", text)
        failed = await event(events, "failed")
        assert message in failed.message
        [(state, row_count, failures, told)] = [status(tmp_path)]
        assert (state, row_count) == ("failing", 1)
        assert failures >= 1
        assert message in told
        assert shares(tmp_path)["physics", "alice"][0] == 3.0
        replace(config / "shares.csv", "account,user,shares\nphysics,alice,4\n")
        await event(events, "recovered")
        await client.until(lambda: shares(tmp_path)["physics", "alice"][0] == 4.0)


async def event(events, kind):
    """The next one of this kind."""
    while True:
        found = msgspec.json.decode((await events.next_msg(PATIENCE_S)).data, type=AdapterEvent)
        if found.event == kind:
            return found


async def test_ranking_goes_on_beside_a_program_that_hangs(broker, tmp_path):
    hangs = adapter("slow", "usage", '{ argv = ["sleep", "1000"], format = "csv" }', "time_limit_s = 1000", "command")
    config = site(tmp_path, hangs, period_s="0.1")
    async with a_prioritizer(broker, tmp_path, config) as client:
        generations = "SELECT count(*) FROM generation WHERE kind = 'full'"
        await client.until(lambda: rows(tmp_path / "rankd.db", generations)[0][0] >= 3)
        assert status(tmp_path, "slow") == ("waiting", 0, 0, None)


async def test_what_was_good_last_outlives_a_restart_and_its_source(broker, tmp_path):
    config = site(tmp_path, adapter())
    replace(config / "shares.csv", "account,user,shares\nphysics,alice,3\n")
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: status(tmp_path) == ("ok", 1, 0, None))
    (config / "shares.csv").unlink()
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: status(tmp_path)[0] == "failing")
        await client.until(lambda: shares(tmp_path).get(("physics", "alice"), (0, 0))[0] == 3.0)
    site(tmp_path)  # and without the adapter, the files' shares are in force
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: shares(tmp_path)["physics", "alice"][0] == 1.0)
        assert status(tmp_path) is None


async def test_usage_from_a_database_counts_beside_rankds_own(broker, tmp_path):
    sql = '{ url = "sqlite:///site.db", query = "SELECT * FROM used" }'
    config = site(tmp_path, adapter("used", "usage", sql, plugin="sql"))
    connection = sqlite3.connect(config / "site.db", isolation_level=None)
    connection.execute("CREATE TABLE used (account TEXT, user TEXT, usage REAL)")
    connection.execute("INSERT INTO used VALUES ('physics', 'alice', 1000)")
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: 999 < usage_of(tmp_path, "alice") <= 1000)
        connection.execute("UPDATE used SET usage = 4000")
        await client.until(lambda: 3999 < usage_of(tmp_path, "alice") <= 4000)
        fair = shares(tmp_path)
        assert fair["physics", "alice"][1] < fair["physics", "bob"][1]
        connection.execute("DELETE FROM used")
        await client.until(lambda: usage_of(tmp_path, "alice") == 0)
    connection.close()


def usage_of(tmp_path, user):
    found = rows(tmp_path / "rankd.db", 'SELECT usage FROM association_share WHERE "user" = ?', user)
    return found[0][0] if found else -1


async def test_values_of_a_factor_per_user_and_per_job(broker, tmp_path):
    config = site(
        tmp_path,
        "[priority.weights]\nage = 0.001\nsite = 100\n",
        adapter("site", "factor", "{ path = 's.csv' }", 'factor = "site"'),
    )
    replace(config / "s.csv", "user,value\nbob,0.5\n")
    points = "SELECT id, site_points FROM job_priority ORDER BY id"
    async with a_cluster(tmp_path, broker.url, load_configuration(config), roles=()) as cluster:
        await cluster.submit(builder.accepted("alice"), builder.accepted("bob"), builder.accepted("bob"))
        async with a_prioritizer(broker, tmp_path, config) as client:
            await client.until(lambda: table(tmp_path, points) == [(1, 0.0), (2, 50.0), (3, 50.0)])
            replace(config / "s.csv", "user,job,value\nbob,,0.25\n,3,1\n")
            await client.until(lambda: table(tmp_path, points) == [(1, 0.0), (2, 25.0), (3, 100.0)])
            assert cluster.ranking() == [3, 2, 1]
    with closing(open_for_reading(tmp_path / "rankd.db")) as reader:  # and a dump, evaluated, says the same
        document = dump(reader, load_configuration(config), None).document
    result = Evaluator().evaluate(msgspec.json.encode(document))
    assert msgspec.to_builtins(result)["ranking"] == [3, 2, 1]


def table(tmp_path, query):
    """The rows; None while there is no such view yet."""
    try:
        return rows(tmp_path / "rankd.db", query)
    except sqlite3.OperationalError:
        return None


async def test_who_and_what_came_from_outside_may_submit_at_once(broker, tmp_path):
    """New accounts, users, groups and QoS, without a restart of the intake."""
    config = site(
        tmp_path,
        adapter("people", "associations", '{ path = "people.csv" }'),
        adapter("qos", "qos", '{ path = "qos.csv" }'),
        adapter("groups", "groups", '{ path = "groups.csv" }'),
        unknown_association='"refuse"',
    )
    (config / "queues.yaml").write_text(
        "partitions: [{name: default, queues: [{name: root, submitacl: ' dev', queues: [{name: default}]}]}]\n"
    )
    async with (
        a_prioritizer(broker, tmp_path, config) as client,
        running(intake.run, options(IntakeOptions, broker, tmp_path, config)),
        Bus(broker.url, "probe") as bus,
    ):
        await ready(bus, "intake")
        assert (await client.do("job.submit", {"command": ["true"]}, "dora")).body["code"] == "unknown_association"
        replace(config / "people.csv", "account,user\nlabs,\nlabs,dora\n")
        replace(config / "qos.csv", "name,priority,usage_factor\nnight,50,0.5\n")
        replace(config / "groups.csv", "group,user\ndev,dora\n")
        await answered(client, {"command": ["true"], "qos": "night"}, "dora")
        [(account, qos)] = rows(tmp_path / "rankd.db", "SELECT account, qos FROM job")
        assert (account, qos) == ("labs", "night")


async def test_names_that_come_later_than_their_input_reach_every_service(broker, tmp_path):
    """An input is read after the intake has recorded a configuration and before the prioritizer has taken it."""
    config = site(tmp_path, adapter("people", options='{ path = "people.csv" }'))
    stated = load_configuration(config)
    known: list[bool] = []
    async with a_cluster(tmp_path, broker.url, stated, roles=("intake", "prioritizer")) as cluster:

        async def use(_found) -> None:
            catalog = await cluster.database.read(read_catalog)
            known.append(("labs", "dora") in catalog.associations)

        adapters, follower = cluster.prioritizer().adapters, InputFollower(stated, cluster.database, use)
        await adapters.start()
        taken = await start_with(cluster.database, "intake", read_directory(config), time.time())
        replace(config / "people.csv", "account,user\nlabs,\nlabs,dora\n")
        await adapters.read_once(*stated.settings.adapters)
        await follower.run_once()
        assert known == [False]
        await adapters.exchange(stated, taken.number)
        await follower.run_once()
        assert known == [False, True]


async def test_a_renamed_adapter_that_has_given_its_input_is_noticed(broker, tmp_path):
    """All of it may happen between two looks."""
    before, after = (load_configuration(site(tmp_path, adapter(name))).settings.adapters for name in ("old", "new"))

    def change(connection, adapters):
        register_adapters(connection, adapters)
        given = checked_input([{"account": "physics", "user": "alice", "shares": 3}], adapters[0], Range())
        save_input(connection, StoredInput(name=adapters[0].name, input=given, read_at=NOW))
        return inputs_revision(connection.exec_driver_sql)

    async with a_cluster(tmp_path, broker.url, roles=()) as cluster:
        first, second = [await cluster.database.write(partial(change, adapters=one)) for one in (before, after)]
    assert first != second


async def answered(client, job, user):
    """Until it is accepted: services look at the records once a second."""
    async with asyncio.timeout(PATIENCE_S):
        while not asyncio.current_task().cancelling():  # nats-py may swallow a cancellation that meets an answer
            if (await client.do("job.submit", job, user)).status is None:
                return
            await asyncio.sleep(ASK_EVERY_S)
        raise asyncio.CancelledError


async def test_every_service_lays_the_stored_inputs_over_its_files(broker, tmp_path):
    config = site(tmp_path, adapter())
    replace(config / "shares.csv", "account,user,shares\nphysics,alice,3\n")
    async with a_prioritizer(broker, tmp_path, config) as client:
        await client.until(lambda: status(tmp_path) == ("ok", 1, 0, None))
    stated = load_configuration(config)
    async with a_cluster(tmp_path, broker.url, stated, roles=()) as cluster:
        await cluster.database.write(lambda c: sync_catalog(c, stated, NOW))
        assert cluster.rows("""SELECT shares FROM association_share WHERE "user" = 'alice'""") == [(3.0,)]
        found = await cluster.database.read(lambda c: in_force(c.exec_driver_sql, stated))
        assert {e.user: e.shares for e in found.configuration.associations if e.user}["alice"] == 3.0
