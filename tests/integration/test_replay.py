"""Each cycle of a small site, replayed later from the records, decides what it decided then.

The site is real: a database, passes of the prioritizer, cycles of the scheduler. A test plays its users and its nodes.
"""

from __future__ import annotations

import json
import random
from contextlib import closing

import builder
import msgspec
import pytest
from integration.stage import NOW, ROOT, a_cluster
from integration.test_same_decision import QUEUES, RUNNING, a_job, add_nodes, assert_same_reasons, go_on, split

from rankd.cli.main import main
from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_update import Task
from rankd.core.errors import Refused
from rankd.core.evaluate.anonymise import anonymised
from rankd.core.model.node import NodeState
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.store.look.moment import moment_at, moment_of_generation
from rankd.store.record.catalog import admission_tables
from rankd.store.record.job_update import judge, write_update
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import Report


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def a_site(directory):
    (directory / "config").mkdir()
    (directory / "config/queues.yaml").write_text(json.dumps(QUEUES))
    (directory / "config/rankd.toml").write_text(
        "[priority.weights]\nage = 1000\nfairshare = 10000\nsize = 100\n[priority.fairshare]\nhalf_life_s = 50\n"
        "[scheduling]\nreserve_depth = 2\n"
    )
    own = load_configuration(directory / "config")
    return msgspec.structs.replace(builder.configuration(), settings=own.settings, partitions=own.partitions)


async def disturb(cluster, draw, now):
    """Users and administrators change some jobs, and a node is drained or resumed."""
    waiting = [job for job, state in cluster.states().items() if state == "pending"]
    for decide in (hold, release, cancel):
        if waiting and draw.random() < 0.5:
            await cluster.act(decide, draw.choice(waiting), at=now)
    if waiting:
        task = Task(
            JobUpdate(time_limit_s=draw.choice([20.0, 45.0])),
            ROOT,
            admission_tables(cluster.configuration, cluster.catalog),
            now,
        )
        some = [draw.choice(waiting)]
        await cluster.database.write(lambda c: write_update(c, judge(c, some, task), task, cluster.catalog))
    running = [job for job, state in cluster.states().items() if state == "running"]
    if running:
        await limited(cluster, draw.choice(running), draw.choice([15.0, 45.0, 500.0]), now)
    await cluster.set_node("n1", draw.choice([NodeState.UP, NodeState.DRAINING]))


async def live(cluster, draw, cycles):
    """Play the site; ``cycles`` gets what each cycle that started jobs decided."""
    prioritizer, scheduler, now = cluster.prioritizer(), cluster.scheduler(), NOW
    await add_nodes(cluster)
    for round_ in range(10):
        now += 10
        await go_on(cluster, draw, now)
        for _ in range(draw.randint(1, 6)):
            await cluster.submit(a_job(draw, now), at=now)
        await split(cluster, draw, now)
        if round_ % 3 != 1:  # otherwise the cycle uses an older ranking
            await prioritizer.run_once(now)
        if draw.random() < 0.5:
            await disturb(cluster, draw, now + 1)
        [(since,)] = cluster.rows("SELECT coalesce(max(id), 0) FROM allocations")
        if await scheduler.run_once(now + 2):
            cycles[now + 2] = recorded(cluster, since)
        await disturb(cluster, draw, now + 3)
    await prioritizer.run_once(now + 5)


def recorded(cluster, since):
    """What a cycle decided: allocations, reservations, and why others wait."""
    started = [
        (of, task, json.loads(nodes), devices and json.loads(devices))
        for id_, _, nodes, _, of, task, devices in cluster.rows(RUNNING)
        if id_ > since
    ]
    reserved = cluster.rows("SELECT job_id, nodes, starts_at FROM reservations ORDER BY job_id")
    reasons = dict(cluster.rows("SELECT id, reason FROM job WHERE state = 'pending' AND reason IS NOT NULL"))
    return started, [(job, json.loads(nodes), at) for job, nodes, at in reserved], reasons


def replayed(cluster, find, change=lambda document: document):
    with closing(open_for_reading(cluster.database.path)) as connection:
        document = dump(connection, cluster.configuration, QUEUES, find(connection)).document
    given = change(msgspec.json.decode(msgspec.json.encode(document)))
    found = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(given)))
    assert found["rejected"] == []
    return found


def as_recorded(cluster, found):
    tasks = {id_: own for id_, *own in cluster.rows("SELECT id, array_job, array_task FROM jobs WHERE array_job > 0")}
    reserved = {row["job"]: (row["job"], row["nodes"], row["starts_at"]) for row in reversed(found["reservations"])}
    return (
        [
            (*tasks.get(row["job"], (row["job"], row.get("task"))), row["nodes"], row.get("devices"))
            for row in found["allocations"]
        ],
        sorted(reserved.values()),
        {row["id"]: row["reason"] for row in found["jobs"] if row["reason"]},
    )


def without_lag(reason):
    """Whether a dependency can still be met is recorded by the next pass of the prioritizer."""
    return reason.removesuffix(" never satisfied")


async def test_each_cycle_is_replayed_as_it_decided(broker, tmp_path, capsys):
    cycles = {}
    async with a_cluster(tmp_path, broker.url, a_site(tmp_path)) as cluster:
        await live(cluster, random.Random(8), cycles)
        assert len(cycles) > 4
        array_of = dict(cluster.rows("SELECT id, array_job FROM jobs WHERE array_job > 0"))
        for at, (started, reserved, reasons) in cycles.items():
            found = replayed(cluster, lambda c, at=at: moment_at(c, at))
            again = as_recorded(cluster, found)
            assert again[:2] == (started, reserved), at
            waits = {job: without_lag(why) for job, why in again[2].items() if why != "not eligible"}
            known = {job: without_lag(reasons[job]) for job in waits}
            assert_same_reasons(known, waits, array_of)
            assert_same_without_names(found, replayed(cluster, lambda c, at=at: moment_at(c, at), anonymised))
        await shown_by_the_command(cluster, list(cycles), capsys)
        assert_says_from_when_on(cluster, list(cycles))


async def limited(cluster, job, limit_s, now):
    """An administrator changes the time limit of a running job."""
    tables = admission_tables(cluster.configuration, cluster.catalog)
    task = Task(JobUpdate(time_limit_s=limit_s), ROOT, tables, now)
    await cluster.database.write(lambda c: write_update(c, judge(c, [job], task), task, cluster.catalog))


def asks(cores, limit_s):
    return builder.accepted(resources={"vcore": cores * 1000}, request={"time_limit_s": limit_s})


async def test_a_running_jobs_limit_counts_as_it_was_then(broker, tmp_path, capsys):
    """Reservations follow ``rankd update --time``: shorter, a small job may not pass any more; longer, it may."""
    async with a_cluster(tmp_path, broker.url, a_site(tmp_path)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=4)

        async def cycle(now):
            await prioritizer.run_once(now)
            await scheduler.run_once(now)
            return cluster.rows("SELECT starts_at FROM reservations WHERE job_id = 2")

        await cluster.submit(asks(3, 100.0), at=NOW)
        await cycle(NOW)
        await cluster.report(("n1", Report(allocation=1, job=1, kind="started", at=NOW)), at=NOW)
        await cluster.submit(asks(4, 100.0), at=NOW + 5)
        assert await cycle(NOW + 5) == [(NOW + 100,)]
        await limited(cluster, 1, 50.0, NOW + 10)
        assert await cycle(NOW + 11) == [(NOW + 50,)]
        await cluster.submit(asks(1, 60.0), asks(1, 20.0), at=NOW + 20)
        assert await cycle(NOW + 20) == [(NOW + 50,)]
        states = cluster.states()
        assert (states[3], states[4]) == ("pending", "allocated"), "job 3 would delay job 2"
        await cluster.end(4, at=NOW + 25)
        await limited(cluster, 1, 200.0, NOW + 30)
        assert await cycle(NOW + 31) == [(NOW + 200,)]
        assert cluster.states()[3] == "allocated"
        await cluster.end(1, at=NOW + 40)
        await prioritizer.run_once(NOW + 40)
        place = ["--db", str(cluster.database.path), "--config", str(tmp_path / "config"), "--json"]
        for at, reserved, started in ((20, 50, 4), (31, 200, 3)):
            shown = told(["replay", "--at", f"@{NOW + at}", *place], capsys)
            assert [row["starts_at"] for row in shown["reservations"] if row["job"] == 2] == [NOW + reserved], at
            assert ([row["job"] for row in shown["started"]], shown["as_recorded"]) == ([started], True)


def assert_same_without_names(found, hidden):
    """A report that names nobody decides the same."""
    assert [(row["job"], row.get("task")) for row in hidden["allocations"]] == [
        (row["job"], row.get("task")) for row in found["allocations"]
    ]
    assert [(row["rank"], row["priority"], row["reason"]) for row in hidden["jobs"]] == [
        (row["rank"], row["priority"], row["reason"]) for row in found["jobs"]
    ]
    assert "alice" not in json.dumps(hidden)


async def shown_by_the_command(cluster, cycles, capsys):
    """By time and by generation; the dump of that instant, evaluated, has the same allocations."""
    place = ["--db", str(cluster.database.path), "--config", str(cluster.database.path.parent / "config")]
    for at in cycles[1::3]:
        [(generation, first)] = cluster.rows(
            "SELECT generation, (SELECT min(a.cycle) FROM allocations a WHERE a.generation = l.generation) = cycle"
            " FROM allocations l WHERE allocated_at = ? LIMIT 1",
            at,
        )
        shown = told(["replay", "--at", f"@{at}", "--json", *place], capsys)
        assert shown["as_recorded"] is True
        assert shown["instant"]["at"] == at
        if first:
            assert told(["replay", "--at", str(generation), "--json", *place], capsys) == shown
        assert main(["replay", "--at", f"@{at}", *place]) == 0
        assert f"As recorded, it started {len(shown['started'])} job" in capsys.readouterr().out
        dumped = told(["dump", "--at", f"@{at}", "--json", *place], capsys)
        decided = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(dumped)))
        assert [row["nodes"] for row in decided["allocations"]] == [row["nodes"] for row in shown["started"]]


def told(words, capsys):
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


def assert_says_from_when_on(cluster, cycles):
    """A deleted event may have been part of every earlier state."""
    with closing(sqlite3.connect(cluster.database.path)) as connection, connection:
        connection.execute("DELETE FROM job_events WHERE at <= ?", (cycles[-2],))
    with closing(open_for_reading(cluster.database.path)) as connection:
        with pytest.raises(Refused, match="states can be shown from then on") as refusal:
            moment_at(connection, cycles[0])
        assert refusal.value.code == "not_kept"
        with pytest.raises(Refused, match="there is no generation 4711: the records have generations 1 to"):
            moment_of_generation(connection, 4711)
        assert moment_at(connection, cycles[-1]).now == cycles[-1]
