"""What a factor of another package may do in its worker: whatever it is, all are ranked, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from types import SimpleNamespace

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster, connected, process, write_config
from watch import PATIENCE_S, gone

from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.model.setting import PluginSettings, PrioritySettings
from rankd.services.runtime.service_configuration import NumberedConfiguration
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.wire.message import FactorEvent

STRANGER = """
import itertools, os, sys, threading
from pathlib import Path
import numpy as np
from rankd.core.ranking.factor import Per

HERE = Path(__file__).parent
(HERE / "pid").write_text(str(os.getpid()))

def hang():
    (HERE / "hanging").touch()
    threading.Event().wait()

def hang_in_c():
    sum(itertools.repeat(0))

def leak():
    kept = []
    while True:
        kept.append(bytearray(2**20))

def cry():
    for _ in range(10_000):
        print("x" * 1000)
        print("x" * 1000, file=sys.stderr)

def fork():
    os.fork()

def fork_and_hang():
    if not os.fork():
        threading.Event().wait()

def whine():
    raise RuntimeError("out of order" * 1000)

def unspeakable():
    class Unspeakable(BaseException):
        def __str__(self): raise ValueError
    raise Unspeakable

WAYS = {
    "raise": whine, "base": unspeakable, "hang": hang, "hang_in_c": hang_in_c, "exit": lambda: os._exit(1),
    "sys.exit": lambda: sys.exit("enough"), "abort": os.abort, "leak": leak, "print": cry, "fork": fork,
    "fork_and_hang": fork_and_hang, "write": lambda: os.closerange(3, 100),
}
RESULTS = {
    "nan": lambda n: np.full(n, np.nan), "shape": lambda n: np.zeros(n + 1), "matrix": lambda n: np.zeros((n, 1)),
    "range": lambda n: np.full(n, 7.0), "text": lambda n: np.full(n, "much"), "none": lambda n: None,
    "objects": lambda n: np.full(n, object()),
}

class Stranger:
    name, per, lowest, highest = "stranger", Per.JOB, 0.0, 1.0
    def __init__(self, settings): pass
    def values(self, context):
        way = (HERE / "way").read_text()
        WAYS.get(way, int)()
        if way == "group":
            context.jobs.nodes[:] = 1
        good = np.where(context.jobs.ids % 2 == 0, 1.0, 0.25)
        return RESULTS.get(way, lambda n: good)(len(good))
    def sql(self): return None
    def parameters(self): return {}
"""

GOOD = [(1, 0.25), (2, 1.0)]
MEMORY = 2**27
"""The least that may be configured."""


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
def stranger(install):
    """A package installed beside rankd; ``will`` says how its factor behaves from now on."""
    package = install("stranger", STRANGER, "[rankd.factors]\nstranger = stranger:Stranger\n")

    def will(way):
        (package / "new").write_text(way)
        (package / "new").rename(package / "way")

    will("work")
    return SimpleNamespace(will=will, package=package)


def configuration(deadline_s=4.0):
    plugins = PluginSettings(deadline_s=deadline_s, memory_bytes=MEMORY)
    return builder.configuration(priority=PrioritySettings(weights={"stranger": 100.0, "user": 1.0}, plugins=plugins))


def values(cluster):
    return cluster.rows("SELECT id, stranger FROM job_priority ORDER BY id")


def failure(cluster):
    """What the newest generation says of it; None where all is well."""
    [(failures,)] = cluster.rows("SELECT failures FROM generations ORDER BY number DESC LIMIT 1")
    return json.loads(failures).get("stranger")


async def first_pass(cluster):
    prioritizer = cluster.prioritizer()
    await cluster.submit(builder.accepted(), builder.accepted())
    await prioritizer.run_once(NOW)
    assert values(cluster) == GOOD
    return prioritizer


async def until_well(cluster, prioritizer):
    """Passes, with pauses as the service makes them, until the factor gives values again."""
    async with asyncio.timeout(PATIENCE_S):
        while failure(cluster):
            await asyncio.sleep(0.2)
            await prioritizer.run_once(NOW + 10)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("raise", r"raised RuntimeError: out of order.{,600}$"),
        ("base", r"raised Unspeakable \(stranger.py:\d+\)"),
        ("hang", "does not answer within 4 s"),
        ("hang_in_c", "does not answer within 4 s"),
        ("exit", "ended with exit status 1"),
        ("sys.exit", r"raised SystemExit: enough \(stranger.py:\d+\)"),
        ("abort", "ended by SIGABRT"),
        ("leak", "raised MemoryError"),
        ("write", "its process|other side"),
        ("group", "raised ValueError: .*read-only"),
        ("nan", "gave nan; allowed is"),
        ("shape", r"shape \(3,\)|shape \(4,\)"),
        ("matrix", "shape"),
        ("range", "gave 7.0; allowed is"),
        ("text", "raised ValueError"),
        ("none", "raised TypeError|shape"),
        ("objects", "raised TypeError"),
    ],
)
async def test_everyone_is_ranked_and_its_last_good_values_stay(broker, tmp_path, stranger, way, told):
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        prioritizer = await first_pass(cluster)
        stranger.will(way)
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW + 1)
        assert values(cluster) == [*GOOD, (3, 0.0)]
        assert cluster.ranking() == [2, 1, 3]
        assert re.search(told, failure(cluster)), failure(cluster)
        await cluster.submit(builder.accepted())
        while await prioritizer.insert_once(NOW + 1):
            pass
        assert cluster.ranking() == [2, 1, 3, 4]
        await prioritizer.run_once(NOW + 2)
        assert values(cluster) == [*GOOD, (3, 0.0), (4, 0.0)]
        shown = prioritizer.diag().plugins["stranger"]
        assert shown.failed >= 1
        assert shown.message
        assert shown.state != "good"
        stranger.will("work")
        await until_well(cluster, prioritizer)
        assert values(cluster) == [*GOOD, (3, 0.25), (4, 1.0)]
        assert prioritizer.diag().plugins["stranger"].state == "good"


@pytest.mark.parametrize("way", ["print", "fork", "fork_and_hang"])
async def test_what_harms_nobody_is_let_happen(broker, tmp_path, stranger, way):
    async with a_cluster(tmp_path, broker.url, configuration(30.0)) as cluster:
        prioritizer = await first_pass(cluster)
        stranger.will(way)
        await cluster.submit(builder.accepted())
        for later in range(1, 4):
            await prioritizer.run_once(NOW + later)
            assert failure(cluster) is None
        assert values(cluster) == [*GOOD, (3, 0.25)]


async def test_a_new_job_has_its_value_at_once_and_keeps_it(broker, tmp_path, stranger):
    """In the delta that shows it first; and when the factor fails before the next full pass."""
    async with a_cluster(tmp_path, broker.url, configuration(60.0)) as cluster:
        prioritizer = await first_pass(cluster)
        await cluster.submit(builder.accepted(), builder.accepted())
        while await prioritizer.insert_once(NOW):
            pass
        assert values(cluster) == [*GOOD, (3, 0.25), (4, 1.0)]
        stranger.will("raise")
        await prioritizer.run_once(NOW + 1)
        assert failure(cluster)
        assert values(cluster) == [*GOOD, (3, 0.25), (4, 1.0)]


async def test_its_last_good_values_outlive_the_prioritizer(broker, tmp_path, stranger):
    async with a_cluster(tmp_path, broker.url, configuration(60.0)) as cluster:
        prioritizer = await first_pass(cluster)
        await cluster.submit(builder.accepted())
        while await prioritizer.insert_once(NOW):
            pass
        stranger.will("exit")
        for later in (1, 2):
            again = cluster.prioritizer()
            await again.run_once(NOW + later)
            assert failure(cluster)
            assert values(cluster) == [*GOOD, (3, 0.25)]
        assert cluster.ranking() == [2, 1, 3]


@pytest.mark.usefixtures("stranger")
async def test_values_are_right_though_jobs_come_while_passes_run(broker, tmp_path):
    """Deltas and passes ask the same worker; what a busy one could not give comes with the next pass."""
    used = configuration()
    priority = msgspec.structs.replace(used.settings.priority, period_s=0.01)
    used = msgspec.structs.replace(used, settings=msgspec.structs.replace(used.settings, priority=priority))
    async with a_cluster(tmp_path, broker.url, used) as cluster, connected(broker.url) as client:
        prioritizer = cluster.prioritizer()
        await prioritizer.run_once(NOW)
        async with asyncio.TaskGroup() as group:
            ranking = group.create_task(prioritizer.run())
            for _ in range(100):
                await cluster.submit(builder.accepted(), builder.accepted())
                prioritizer.wake.set()
            newest = "SELECT jobs FROM generations ORDER BY number DESC LIMIT 1"
            await client.until(lambda: cluster.rows(newest) == [(200,)])
            ranking.cancel()
        await prioritizer.run_once(NOW + 9)
        await until_well(cluster, prioritizer)
        assert values(cluster) == [(job, 1.0 if job % 2 == 0 else 0.25) for job in range(1, 201)]
        assert prioritizer.diag().plugins["stranger"].ended == 0


FORMULA = STRANGER.replace("def sql(self): return None", "def sql(self): return '0.5 * ({urgency} >= 0)'").replace(
    "np.where(context.jobs.ids % 2 == 0, 1.0, 0.25)", "np.full(len(context.jobs), 0.5)"
)


@pytest.mark.parametrize("way", ["raise", "hang"])
async def test_a_formula_that_fails_in_a_delta_makes_a_full_pass_due(broker, tmp_path, stranger, way):
    (stranger.package / "stranger.py").write_text(FORMULA)
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW)
        await cluster.submit(builder.accepted())
        while await prioritizer.insert_once(NOW):
            pass
        assert values(cluster) == [(1, 0.5), (2, 0.5)]
        stranger.will(way)
        await cluster.submit(builder.accepted())
        await prioritizer.insert_once(NOW)
        assert prioritizer._soon.is_set()
        await prioritizer.run_once(NOW + 1)
        assert values(cluster) == [(1, 0.5), (2, 0.0), (3, 0.0)]
        assert cluster.ranking() == [1, 2, 3]
        stranger.will("work")
        await until_well(cluster, prioritizer)
        assert values(cluster) == [(1, 0.5), (2, 0.5), (3, 0.5)]


GROUPED = """
import threading
from pathlib import Path
import numpy as np
from rankd.core.ranking.factor import Per
if Path(__file__).with_name("hang").exists(): threading.Event().wait()
class Grouped:
    name, per, lowest, highest = "grouped", Per.ASSOCIATION, 0.0, 1.0
    def __init__(self, settings): pass
    def values(self, context):
        return np.array([user == "bob" for account, user in context.groups.names.associations], dtype=float)
    def sql(self): return None
    def parameters(self): return {}
"""


async def test_values_of_users_outlive_it_though_its_plugin_is_not_even_imported_then(broker, tmp_path, install):
    package = install("grouped", GROUPED, "[rankd.factors]\ngrouped = grouped:Grouped\n")
    used = builder.configuration(priority=PrioritySettings(weights={"grouped": 100.0}))
    async with a_cluster(tmp_path, broker.url, used) as cluster:
        await cluster.submit(builder.accepted("alice"), builder.accepted("bob"))
        await cluster.prioritizer().run_once(NOW)
        shown = cluster.rows("SELECT id, grouped, rank FROM job_priority ORDER BY id")
        assert shown == [(1, 0.0, 2), (2, 1.0, 1)]
        (package / "hang").touch()
        again = cluster.prioritizer()
        await again.run_once(NOW + 1)
        [(failures,)] = cluster.rows("SELECT failures FROM generations WHERE number = 2")
        assert "has not started" in failures
        assert cluster.rows("SELECT id, grouped, rank FROM job_priority ORDER BY id") == shown
        assert again.diag().plugins["grouped"].state == "starting"


async def test_that_it_fails_is_said_once_and_that_it_works_again(broker, tmp_path, stranger):
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster, connected(broker.url) as client:
        events = await client.connection.subscribe("rankd.v1.event.factor.stranger")
        await client.connection.flush()
        prioritizer = await first_pass(cluster)
        stranger.will("raise")
        for later in range(1, 4):
            await prioritizer.run_once(NOW + later)
        stranger.will("work")
        await until_well(cluster, prioritizer)
        said = [msgspec.json.decode((await events.next_msg(30)).data, type=FactorEvent) for _ in range(2)]
        assert [(event.event, event.at) for event in said] == [("failed", NOW + 1), ("recovered", NOW + 10)]
        assert "out of order" in said[0].message
        assert events.pending_msgs == 0


async def test_what_comes_late_counts_from_the_next_pass_on(broker, tmp_path, install):
    slow = STRANGER.replace('"stranger"', '"slow"').replace(
        'way = (HERE / "way").read_text()', "way = ''; wait(context.now)"
    )
    slow += """
def wait(now):
    (HERE / "asked").touch()
    while not (HERE / f"go{int(now)}").exists():
        pass
"""
    package = install("slow", slow, "[rankd.factors]\nslow = slow:Stranger\n")
    used = configuration(0.05)
    priority = msgspec.structs.replace(used.settings.priority, weights={"slow": 100.0})
    used = msgspec.structs.replace(used, settings=msgspec.structs.replace(used.settings, priority=priority))
    async with a_cluster(tmp_path, broker.url, used) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted(), builder.accepted())
        await prioritizer.run_once(NOW)
        assert cluster.rows("SELECT slow FROM job_priority") == [(0.0,), (0.0,)]
        (package / f"go{int(NOW)}").touch()
        async with asyncio.timeout(PATIENCE_S):
            later = NOW
            while cluster.rows("SELECT slow FROM job_priority ORDER BY id") != [(0.25,), (1.0,)]:
                later += 1
                await prioritizer.run_once(later)
        assert prioritizer.diag().plugins["slow"].state == "late"


@pytest.mark.parametrize("way", ["work", "hang"])
async def test_other_weights_are_served_by_another_worker_and_the_old_one_ends(broker, tmp_path, stranger, way):
    used = configuration()
    async with a_cluster(tmp_path, broker.url, used) as cluster:
        prioritizer = await first_pass(cluster)
        before = prioritizer.diag().plugins["stranger"].pid
        stranger.will(way)
        await prioritizer.run_once(NOW + 1)
        priority = msgspec.structs.replace(used.settings.priority, weights={"user": 1.0, "stranger": 200.0})
        settings = msgspec.structs.replace(used.settings, priority=priority)
        await prioritizer.follower.prepare(
            NumberedConfiguration(None, msgspec.structs.replace(used, settings=settings))
        )
        await prioritizer.run_once(NOW + 2)
        assert cluster.rows("SELECT id, stranger_points FROM job_priority ORDER BY id") == [(1, 50.0), (2, 200.0)]
        await gone(before)


@pytest.mark.parametrize("way", ["work", "raise", "exit", "hang"])
async def test_a_dump_gives_the_live_numbers_whatever_it_does(broker, tmp_path, stranger, way):
    """Also of jobs that have started since, and with a plugin that is not asked any more."""
    async with a_cluster(tmp_path, broker.url, configuration()) as cluster:
        prioritizer = await first_pass(cluster)
        stranger.will(way)
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW + 1)
        live = cluster.rows("SELECT rank, id, priority, stranger FROM job_priority ORDER BY rank")
        await cluster.add_node("n1", vcore=1)
        assert await cluster.scheduler().run_once(NOW + 1)
        assert "allocated" in cluster.states().values()
        stranger.will("hang")
        connection = open_for_reading(cluster.database.path)
        found = dump(connection, cluster.configuration, None)
        connection.close()
        result = Evaluator().evaluate(msgspec.json.encode(found.document))
        rows = {row.id: row for row in result.jobs}
        shown = [
            (rows[job].rank, job, rows[job].priority, next(f.value for f in rows[job].factors if f.name == "stranger"))
            for job in result.ranking
        ]
        assert shown == live
        assert not (stranger.package / "hanging").exists() or way == "hang"


def document(**fields):
    return msgspec.json.encode(
        {
            "now": NOW,
            "priority": {"weights": {"stranger": 100.0}, "plugins": {"deadline_s": 1}},
            "jobs": [{"id": 1} | fields, {"id": 2, "factors": {"stranger": 0.5}}],
        }
    )


@pytest.mark.usefixtures("stranger")
def test_evaluate_asks_it_where_a_job_does_not_say_its_value():
    rows = Evaluator().evaluate(document()).jobs
    assert [row.priority for row in rows] == [25, 50]


@pytest.mark.parametrize(("way", "told"), [("hang", "within 1 s"), ("exit", "exit status 1"), ("nan", "gave nan")])
def test_evaluate_of_a_document_comes_to_an_end_and_says_what_failed(stranger, way, told):
    stranger.will(way)
    evaluator = Evaluator()
    for _ in range(2):
        result = evaluator.evaluate(document())
        assert [row.priority for row in result.jobs] == [0, 50]
        assert told in result.warnings[0].message


def test_evaluate_does_not_start_what_it_does_not_need(stranger):
    result = Evaluator().evaluate(document(factors={"stranger": -3.5}))
    assert [row.priority for row in result.jobs] == [-350, 50]
    assert not (stranger.package / "pid").exists()


# --- as a service -------------------------------------------------------------------------------------------


def config(tmp_path, deadline_s=1.0):
    directory = write_config(tmp_path / "config")
    text = (directory / "rankd.toml").read_text()
    weights = f"[priority.weights]\nstranger = 100\nuser = 1\n[priority.plugins]\ndeadline_s = {deadline_s}\n"
    (directory / "rankd.toml").write_text(f"{text}{weights}")
    return directory


@pytest.mark.parametrize("way", ["work", "hang", "hang_in_c"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_its_worker_ends_with_the_service(broker, tmp_path, stranger, monkeypatch, way, number):
    monkeypatch.setenv("PYTHONPATH", str(stranger.package), prepend=":")
    directory = config(tmp_path)
    stranger.will(way)
    async with (
        a_cluster(tmp_path, broker.url, load_configuration(directory), roles=()) as cluster,
        connected(broker.url) as client,
        process("prioritizer", nats=broker.url, db=str(cluster.database.path), config=str(directory)) as service,
    ):
        await cluster.submit(builder.accepted())
        await client.until(lambda: cluster.rows("SELECT 1 FROM generations WHERE jobs > 0"))
        worker = int((stranger.package / "pid").read_text())
        service.send_signal(number)
        await service.wait()
        await gone(worker)


def test_the_check_of_a_configuration_says_what_is_wrong_with_it(stranger, tmp_path, capsys):
    from rankd.cli.main import main

    directory = str(config(tmp_path))
    assert main(["config", "check", directory]) == 0
    for text, told in [
        ("raise ImportError('no csv')", "stranger:Stranger can't be used: raised ImportError: no csv"),
        (STRANGER.replace('"stranger"', '"strange"'), "does not implement rankd.core.ranking.factor.Factor"),
        (STRANGER.replace("0.0, 1.0", "1.0, 0.0"), "[1.0, 0.0] is not a range"),
        (STRANGER.replace("return None", "return '{size} +'"), "its formula in SQL can't be used: KeyError"),
        (STRANGER.replace("return None", "return '{nodes} +'"), "its formula in SQL can't be used: OperationalError"),
        ("import os; os._exit(3)", "its process ended with exit status 3"),
    ]:
        (stranger.package / "stranger.py").write_text(text)
        assert main(["config", "check", directory]) != 0
        assert told in capsys.readouterr().out
